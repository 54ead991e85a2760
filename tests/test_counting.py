"""Requests and commands are counted separately and exactly."""

import pytest

from tests import counting
from tests.servers import VALKEY, RedisFactory, RedisServer

SCRIPT = "redis.call('SET', 'k', ARGV[1]) redis.call('GET', 'k') return redis.call('GET', 'k')"


@pytest.fixture(params=["redis-server", VALKEY], ids=["redis", "valkey"])
def server(request: pytest.FixtureRequest, redis_server: RedisFactory) -> RedisServer:
    return redis_server(binary=request.param)


def test_a_script_is_one_request_and_several_commands(server: RedisServer) -> None:
    with server.client() as client:
        client.ping()
        with counting.requests(server) as seen:
            client.eval(SCRIPT, 0, 'lua] "quoted" \r\n')
            client.get("k")
        assert seen == {"eval": 1, "get": 1}
        with counting.commands(server) as seen:
            client.eval(SCRIPT, 0, "v")
            client.get("k")
        assert seen == {"eval": 1, "set": 1, "get": 3}


def test_what_happens_before_and_after_does_not_count(server: RedisServer) -> None:
    with server.client() as client:
        client.incr("n")
        with counting.requests(server) as seen:
            pass
        assert seen == {}
        with counting.commands(server) as seen:
            pass
        client.incr("n")
        assert seen == {}


def test_a_pipeline_is_as_many_requests_as_it_has_commands(server: RedisServer) -> None:
    with server.client() as client:
        client.ping()
        with counting.requests(server) as seen:
            pipeline = client.pipeline(transaction=False)
            for _ in range(100):
                pipeline.get("k")
            pipeline.execute()
    assert seen == {"get": 100}
