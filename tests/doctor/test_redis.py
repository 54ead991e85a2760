"""Each check of Redis on a real server that has the fault, and on one that has not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

import fencelock
from fencelock.doctor import Report
from tests.doctor.clocks import ShiftedClock
from tests.doctor.examining import bad, check, examined, examined_async, in_time, with_status
from tests.proxy import TcpProxy
from tests.servers import (
    HOST,
    VALKEY,
    ClusterSet,
    RedisFactory,
    RedisServer,
    Sentinel,
    SentinelSet,
)
from tests.waiting import eventually

HEALTHY: dict[str, Any] = {
    "appendonly": "yes",
    "appendfsync": "everysec",
    "enable_protected_configs": "yes",
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("doctor"), **HEALTHY) as server:
        yield server


@pytest.fixture
def server(one: RedisServer) -> Iterator[RedisServer]:
    """A server without a fault. What a test changes there is as before afterwards."""
    before = one.execute("CONFIG", "GET", "*")
    yield one
    after = one.execute("CONFIG", "GET", "*")
    one.config(**{name: value for name, value in before.items() if after[name] != value})
    eventually(lambda: not one.info("replication")["connected_slaves"], "its replicas to be gone")
    one.execute("FLUSHALL")
    one.execute("CONFIG", "RESETSTAT")


@pytest.fixture
def alone(server: RedisServer) -> Iterator[redis.Redis]:
    """The only connection to the server, for tests that limit the number of connections."""
    with server.client() as only:
        eventually(lambda: len(only.client_list()) == 1, "earlier connections to be closed")
        most = only.config_get("maxclients")["maxclients"]
        yield only
        only.config_set("maxclients", most)


@pytest.mark.parametrize("binary", ["redis-server", VALKEY])
@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_server_without_a_fault(
    redis_server: RedisFactory, binary: str, examine: Callable[[str], Report]
) -> None:
    report = examine(redis_server(binary=binary, **HEALTHY).url)
    assert (report.verdict, report.promise) == ("efficiency", "efficiency")
    assert with_status(report, "bad", "unknown", "advice") == set()
    assert report.latency is not None
    assert 0 < report.latency.p50 <= report.latency.p99
    (clock,) = report.clocks
    assert abs(clock.offset) <= clock.uncertainty + 0.01
    assert not clock.stepped
    assert report.ttl is not None
    assert report.ttl >= 1


@pytest.mark.parametrize(
    ("id", "settings", "status", "verdict"),
    [
        ("eviction", {"maxmemory": "1gb", "maxmemory_policy": "allkeys-lru"}, "bad", "not safe"),
        ("eviction", {"maxmemory": "1gb", "maxmemory_policy": "volatile-ttl"}, "bad", "not safe"),
        ("eviction", {"maxmemory_policy": "allkeys-lru"}, "advice", "efficiency"),
        ("eviction", {"maxmemory": "1gb"}, "ok", "efficiency"),
        ("memory", {"maxmemory": "1mb"}, "bad", "efficiency"),
        ("memory", {"maxmemory": "1gb"}, "ok", "efficiency"),
        ("persistence", {"appendonly": "no"}, "bad", "efficiency"),
        ("persistence", {"appendfsync": "no"}, "bad", "efficiency"),
        ("persistence", {"appendfsync": "always"}, "ok", "efficiency"),
    ],
)
def test_settings(
    server: RedisServer, id: str, settings: dict[str, str], status: str, verdict: str
) -> None:
    server.config(**settings)
    report = examined(server.url)
    assert check(report, id).status == status
    assert report.verdict == verdict
    assert bad(report) == ({id} if status == "bad" else set())
    assert bool(check(report, id).mend) is (status != "ok")


def test_keys_that_were_evicted_before_the_policy_was_right(server: RedisServer) -> None:
    server.execute("SET", "key", "value")
    server.config(maxmemory_policy="allkeys-lru")
    server.config(maxmemory="1mb")
    eventually(lambda: server.info("stats")["evicted_keys"], "an eviction")
    server.config(maxmemory_policy="noeviction", maxmemory="0")
    assert "were evicted" in check(examined(server.url), "eviction").detail


def test_nearly_all_connections_are_used(server: RedisServer, alone: redis.Redis) -> None:
    assert check(examined(server.url), "connections").status == "ok"
    eventually(lambda: len(alone.client_list()) == 1, "that connection to be closed")
    alone.config_set("maxclients", 2)
    report = examined(server.url)
    assert (bad(report), report.verdict) == ({"connections"}, "efficiency")
    assert "2 of 2" in check(report, "connections").detail


def test_refused_connections(server: RedisServer, alone: redis.Redis) -> None:
    alone.config_set("maxclients", 1)
    with server.client() as another, pytest.raises(redis.ConnectionError):
        another.ping()
    alone.config_set("maxclients", 1000)
    found = check(examined(server.url), "connections")
    assert (found.status, "refused" in found.detail) == ("advice", True)


def test_a_script_that_runs_for_long(server: RedisServer) -> None:
    server.config(busy_reply_threshold=1)

    def run() -> None:
        with suppress(redis.ResponseError):  # it is killed
            server.execute("EVAL", "while true do end", 0)

    script = threading.Thread(target=run)
    script.start()
    with server.client() as client:

        def refused() -> bool:
            try:
                return not client.ping()
            except redis.ResponseError as error:
                return "BUSY" in str(error)

        eventually(refused, "a request to be refused")
        client.execute_command("SCRIPT KILL")
    script.join()
    found = check(examined(server.url), "stalls")
    assert (found.status, "a script ran" in found.detail) == ("advice", True)


def test_a_snapshot_that_fails(server: RedisServer, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    home = server.execute("CONFIG", "GET", "dir")["dir"]
    server.config(dir=gone, save="3600 1", stop_writes_on_bgsave_error="yes")
    gone.rmdir()
    try:
        server.execute("BGSAVE")
        eventually(
            lambda: server.info("persistence")["rdb_last_bgsave_status"] == "err", "a failed save"
        )
        report = examined(server.url)
        assert bad(report) == {"snapshots"}
        server.config(stop_writes_on_bgsave_error="no")
        assert check(examined(server.url), "snapshots").status == "advice"
    finally:
        server.config(dir=home)
        server.execute("SAVE")
    assert check(examined(server.url), "snapshots").status == "ok"


def test_the_ttl_decides_whether_a_server_is_too_slow(
    server: RedisServer, tcp_proxy: Callable[[int], TcpProxy]
) -> None:
    proxy = tcp_proxy(server.port)
    proxy.delay(0.02)
    url = f"redis://{HOST}:{proxy.port}"
    assert check(examined(url, ttl=86_400), "round-trip").status == "ok"
    with fencelock.Client(url, ttl=0.5) as client:
        report = client.diagnose(timeout=10)
    assert (bad(report), report.verdict) == ({"round-trip"}, "efficiency")
    assert report.latency is not None
    assert report.latency.p50 >= 0.02
    assert report.ttl is not None
    assert report.ttl >= 30 * report.latency.p99


# --- replicas, Sentinel, Cluster


def test_replicas(server: RedisServer, redis_server: RedisFactory) -> None:
    replica = redis_server(**HEALTHY, replicaof=f"{HOST} {server.port}")
    replica.wait_for_sync()
    report = examined(server.url)
    assert (bad(report), report.verdict) == ({"replication"}, "efficiency")
    server.config(min_replicas_to_write=2)
    assert "locks are refused" in check(examined(server.url), "replication").detail
    server.config(min_replicas_to_write=1)
    assert bad(examined(server.url)) == set()

    report = examined(replica.url)
    assert (bad(report), report.verdict) == ({"role"}, "not safe")
    probed = examined(replica.url, probe=True)
    assert bad(probed) == {"role", "hand-over"}, "a probe that fails hides nothing"
    assert "READONLY" in check(probed, "hand-over").detail
    assert f"a replica of {server.address}" in check(report, "role").detail
    replica.execute("REPLICAOF", "NO", "ONE")
    assert bad(examined(replica.url)) == set(), "it was promoted"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    with SentinelSet(tmp_path_factory.mktemp("sentinels")) as sentinels:
        for server in sentinels.servers:
            server.config(appendonly="yes", min_replicas_to_write=1)
        yield sentinels


@pytest.fixture
def sentinels(watched: SentinelSet) -> Iterator[SentinelSet]:
    """Sentinels without a fault. Which of the two servers is the primary depends on earlier tests."""
    yield watched
    for server in watched.servers:
        server.config(maxmemory=0, maxmemory_policy="noeviction")
    set_quorum(watched, 2)


def set_quorum(sentinels: SentinelSet, number: int) -> None:
    for sentinel in sentinels.sentinels:
        sentinel.execute("SENTINEL", "SET", sentinels.name, "quorum", number)


def test_sentinels_and_the_servers_that_they_know(sentinels: SentinelSet) -> None:
    report = in_time(sentinels.url, lambda report: not bad(report), "Sentinels at rest")
    assert check(report, "reachable").detail == "5 of 5 answer"
    assert len(report.clocks) == 2, "Sentinels have no clock that can be asked"
    old = eventually(sentinels.primary, "a primary")
    (new,) = (server for server in sentinels.servers if server is not old)
    new.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")

    def found(report: Report) -> bool:
        # Sentinels that a busy machine has stalled may make the old one the primary again.
        if sentinels.primary() is old:
            sentinels.failover()
        eviction = check(report, "eviction")
        return (eviction.status, eviction.servers) == ("bad", (new.address,))

    in_time(sentinels.url, found, "the promoted server to be the one that counts")


def test_sentinels_that_can_not_decide(sentinels: SentinelSet) -> None:
    for quorum, status, detail in (
        (1, "advice", "quorum of only 1"),
        (4, "bad", "never agree"),
        (2, "ok", "3 of them, quorum 2"),
    ):
        set_quorum(sentinels, quorum)

        def said(report: Report) -> bool:
            found = check(report, "sentinels")
            return found.status == status and detail in found.detail  # noqa: B023

        in_time(sentinels.url, said, f"the Sentinels to say {detail!r}")


def test_two_sentinels_and_sentinels_that_disagree(
    tmp_path: Path, redis_server: RedisFactory
) -> None:
    servers = [redis_server(appendonly="yes") for _ in range(2)]
    pair = [Sentinel(tmp_path / f"sentinel-{n}", server, "x") for n, server in enumerate(servers)]
    with pair[0], pair[1]:

        def say(hosts: str, verdict: str, detail: str) -> None:
            # On a busy machine a Sentinel may take its master for dead for a moment.
            url = f"redis+sentinel://{hosts}/x"
            report = in_time(
                url, lambda report: detail in check(report, "sentinels").detail, detail
            )
            assert (bad(report), report.verdict) == ({"sentinels"}, verdict)

        say(f"{pair[0].address},{pair[1].address}", "not safe", "disagree")
        say(pair[0].address, "efficiency", "1 of them")
        strange = f"redis+sentinel://{pair[0].address}/y"
        with pytest.raises(fencelock.EngineError, match="it could not be examined"):
            examined(strange)


def test_a_cluster(redis_cluster: ClusterSet) -> None:
    report = examined(redis_cluster.url)
    assert check(report, "reachable").detail == "3 of 3 answer"
    assert "without a replica" in check(report, "cluster").detail
    assert bad(report) == {"persistence"}


def test_a_cluster_that_serves_no_slots(redis_server: RedisFactory) -> None:
    node = redis_server(cluster_enabled="yes", appendonly="yes")
    report = examined(f"redis+cluster://{node.address}")
    assert bad(report) == {"cluster"}
    assert check(report, "cluster").detail == "0 of 16384 slots are served"
    wrong = examined(node.url)
    assert (bad(wrong), wrong.verdict) == ({"role"}, "not safe")
    node.execute("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: node.execute("CLUSTER INFO")["cluster_state"] == "ok", "the slots")
    few = check(examined(f"redis+cluster://{node.address}"), "cluster")
    assert (few.status, few.detail) == ("bad", "masters with slots: 1")


# --- clocks


def test_clocks(
    redis_server: RedisFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ShiftedClock(tmp_path)
    with clock.loaded(monkeypatch):
        server = redis_server(**HEALTHY)
    assert bad(examined(server.url, ttl=300)) == set()
    for seconds in (5.0, -5.0):
        clock.set(seconds)
        report = examined(server.url, ttl=300)
        assert (bad(report), report.in_the_way) == ({"clock"}, ())
        assert report.next.endswith("no setting gives more")
        (seen,) = report.clocks
        assert abs(seen.offset - seconds) <= seen.uncertainty + 0.01
        assert report.ttl is not None
        assert report.ttl >= 10
        assert bad(examined(server.url, ttl=600)) == set(), "5 s is less than 1 % of 600 s"


# --- what the servers don't tell, and servers that don't answer


def test_a_user_with_fewer_rights(server: RedisServer) -> None:
    secret = "hunter2"
    url = server.add_user("managed", secret, "~*", "&*", "+@all", "-config")
    report = examined(url)
    assert with_status(report, "unknown") == {"persistence"}
    found = check(report, "persistence")
    assert "CONFIG GET was refused: NOPERM" in found.detail
    assert "ask your provider" in found.mend
    assert report.verdict == "efficiency"
    assert report.unknown("efficiency") == ()

    url = server.add_user("managed", secret, "-info")
    report = examined(url)
    assert {"role", "eviction"} <= {each.id for each in report.unknown("efficiency")}
    assert secret not in str(report)
    accepted = report.accepting(["role", "eviction"])
    assert accepted.unknown("efficiency") == ()


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_servers_that_can_not_be_examined(
    redis_server: RedisFactory, examine: Callable[..., Report]
) -> None:
    server = redis_server(requirepass="hunter2")
    wrong = f"redis://:hunter3@{server.address}"
    with pytest.raises(fencelock.EngineError, match="WRONGPASS") as caught:
        examine(wrong)
    assert "hunter" not in str(caught.value)
    server.freeze()
    with pytest.raises(fencelock.EngineError, match="no answer"):
        examine(server.url, timeout=0.2)
    server.kill()
    with pytest.raises(fencelock.EngineError, match="Connect"):
        examine(server.url)
