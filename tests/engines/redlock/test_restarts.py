"""What a real server remembers of itself when it is killed and started again."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencelock.engines.redlock.protocol import Vote
from tests.engines.redlock.calling import Caller, OpenCaller
from tests.servers import RedisFactory, RedisServer

Meet = Callable[[RedisServer], Caller]


@pytest.fixture
def meet(open_caller: OpenCaller) -> Meet:
    """Connect, and read which process answers: as an engine does on every new connection."""

    def meet(server: RedisServer) -> Caller:
        caller = open_caller(server.url)
        caller.prefix, caller.run = "node", server.info("server")["run_id"]
        return caller

    return meet


def test_a_node_that_lost_everything_is_blank(redis_server: RedisFactory, meet: Meet) -> None:
    server = redis_server()
    before = meet(server)
    assert before.readmit()
    before.grant("x", "a")
    server.restart(keep_data=False)
    after = meet(server)
    assert after.run != before.run
    assert after.grant("x", "b").vote is Vote.BLANK


def test_a_node_with_a_snapshot_is_blank_too(redis_server: RedisFactory, meet: Meet) -> None:
    server = redis_server()
    before = meet(server)
    assert before.readmit()
    before.grant("x", "a")
    server.execute("SAVE")
    before.release("x", "a", 1)
    before.grant("x", "b")
    server.kill()
    server.start()
    after = meet(server)
    assert after.grant("x", "c").vote is Vote.BLANK
    assert after.readmit(50)
    assert after.grant("x", "c").vote is Vote.REFUSED, "the snapshot has the lock of a"
    assert after.grant("x", "a").fence == 51, "which is not a's any more"


def test_a_node_that_syncs_every_write_forgets_nothing(
    redis_server: RedisFactory, meet: Meet
) -> None:
    server = redis_server(appendonly="yes", appendfsync="always")
    before = meet(server)
    assert before.readmit()
    assert before.grant("x", "a", hint=77).fence == 77
    server.kill()
    server.start()
    after = meet(server)
    assert after.grant("x", "a").vote is Vote.BLANK, "it can't know that by itself"
    assert after.readmit(0)
    assert after.renew("x", "a", 1_000, 77)
    after.release("x", "a", 77)
    assert after.grant("x", "b").fence == 78


def test_a_flush_makes_a_node_blank(redis_server: RedisFactory, meet: Meet) -> None:
    server = redis_server()
    caller = meet(server)
    assert caller.readmit()
    caller.grant("x", "a")
    server.execute("FLUSHALL")
    assert caller.grant("x", "b").vote is Vote.BLANK
