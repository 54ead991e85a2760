"""Each check of Redis on a real server that has the fault, and on one that has not."""

from __future__ import annotations

import asyncio
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
from tests.doctor.examining import bad, check, examined, examined_async, with_status
from tests.effort import only_in_soaks
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

# Some of these tests need what an earlier one of this file has done to the server. In `./test` they may run
# in any order, on several workers: until that is mended, only `./soak` runs them.
pytestmark = only_in_soaks

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
    """A server without a fault. A test may change its settings; afterwards they are as before."""
    before = one.execute("CONFIG", "GET", "*")
    yield one
    after = one.execute("CONFIG", "GET", "*")
    changed = {name: value for name, value in before.items() if after[name] != value}
    one.config(**changed)
    one.execute("CONFIG", "RESETSTAT")


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
        ("connections", {"maxclients": "1"}, "bad", "efficiency"),
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


def test_refused_connections(server: RedisServer) -> None:
    server.config(maxclients=1)

    def refused() -> bool:
        with server.client() as client, suppress(redis.RedisError):
            client.ping()
            with server.client() as another:
                another.ping()
        return True

    eventually(refused, "a refusal")
    server.config(maxclients=1000)
    found = check(examined(server.url), "connections")
    assert (found.status, "refused" in found.detail) == ("advice", True)


def test_a_script_that_runs_for_long(server: RedisServer) -> None:
    server.config(busy_reply_threshold=1)
    slow = "local t = redis.call('TIME'); for i = 1, 3e6 do local x = i % 7 end; return 1"
    script = threading.Thread(target=server.execute, args=("EVAL", slow, 0))
    script.start()
    with server.client() as client:
        while script.is_alive():
            with suppress(redis.RedisError):
                client.get("x")
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
        report = client.diagnose()
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
def sentinels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SentinelSet]:
    with SentinelSet(tmp_path_factory.mktemp("sentinels")) as sentinels:
        for server in sentinels.servers:
            server.config(appendonly="yes", min_replicas_to_write=1)
        yield sentinels


def at_rest(sentinels: SentinelSet) -> Report:
    """The report without a fault. Sentinels that a busy machine has stalled need time to agree again."""

    def examine() -> list[Report]:
        report = examined(sentinels.url)
        return [] if bad(report) else [report]

    return eventually(examine, "Sentinels at rest")[0]


def test_sentinels_and_the_servers_that_they_know(sentinels: SentinelSet) -> None:
    report = at_rest(sentinels)
    assert check(report, "reachable").detail == "5 of 5 answer"
    assert len(report.clocks) == 2, "Sentinels have no clock that can be asked"
    old, new = sentinels.primary(), sentinels.failover()
    assert new is not old
    new.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    found = check(examined(sentinels.url), "eviction")
    assert (found.status, found.servers) == ("bad", (new.address,)), "the promoted one counts"
    new.config(maxmemory_policy="noeviction")


def test_sentinels_that_can_not_decide(sentinels: SentinelSet) -> None:
    name, all_of_them = sentinels.name, sentinels.sentinels

    def quorum(number: int) -> None:
        for sentinel in all_of_them:
            sentinel.execute("SENTINEL", "SET", name, "quorum", number)

    def say(status: str, detail: str) -> None:
        def said() -> bool:
            found = check(examined(sentinels.url), "sentinels")
            return found.status == status and detail in found.detail

        eventually(said, f"the Sentinels to say {detail!r}")

    quorum(1)
    say("advice", "quorum of only 1")
    quorum(4)
    say("bad", "never agree")
    quorum(2)
    say("ok", "3 of them, quorum 2")


def test_two_sentinels_and_sentinels_that_disagree(
    tmp_path: Path, redis_server: RedisFactory
) -> None:
    servers = [redis_server(appendonly="yes") for _ in range(2)]
    pair = [Sentinel(tmp_path / f"sentinel-{n}", server, "x") for n, server in enumerate(servers)]
    with pair[0], pair[1]:
        apart = examined(f"redis+sentinel://{pair[0].address},{pair[1].address}/x")
        assert (bad(apart), apart.verdict) == ({"sentinels"}, "not safe")
        assert "disagree" in check(apart, "sentinels").detail
        single = examined(f"redis+sentinel://{pair[0].address}/x")
        assert (bad(single), single.verdict) == ({"sentinels"}, "efficiency")
        assert check(single, "sentinels").detail == "1 of them"
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
    assert bad(examined(server.url, ttl=30)) <= {"round-trip"}
    for seconds in (5.0, -5.0):
        clock.set(seconds)
        report = examined(server.url, ttl=30)
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


# --- clients that examine first


def test_a_client_refuses_a_set_up_that_gives_less(server: RedisServer) -> None:
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    with fencelock.Client(server.url, diagnose=True) as client:
        assert client.names() == [], "only locks are refused"
        for take in (client.lock("x").acquire, client.lock_all(["x", "y"]).acquire):
            with pytest.raises(fencelock.UnsafeEngine, match="noeviction"):
                take()
        server.config(maxmemory_policy="noeviction")
        with client.lock("x"):
            server.config(maxmemory_policy="allkeys-lru")
        with client.lock("x"):
            pass  # it was examined at the first contact


def test_a_client_says_what_it_could_not_find_out(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    blind = server.add_user("blind", "hunter2", "~*", "&*", "+@all", "-info")
    with fencelock.Client(blind, diagnose=True) as client:
        for _ in range(2):
            with client.lock("x"):
                pass
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "fencelock.engine"]
    assert warning.startswith(
        "not known whether this set-up gives efficiency: role: INFO was refused"
    )


async def test_a_client_for_asyncio_does_too(server: RedisServer) -> None:
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    async with fencelock.AsyncClient(server.url, diagnose=True) as client:
        locks = [client.lock(f"{n}") for n in range(20)]
        refused = await asyncio.gather(*(lock.acquire() for lock in locks), return_exceptions=True)
        assert {type(each) for each in refused} == {fencelock.UnsafeEngine}
        server.config(maxmemory_policy="noeviction")
        await asyncio.gather(*(lock.acquire() for lock in locks))
        assert len(await client.names()) == 20


def test_routes_are_examined_part_by_part(server: RedisServer, tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path}/locks.db"
    routes: dict[str, Any] = {"order:*": server.url, "*": file}
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    report = examined(routes)
    assert [(part.engine, part.names) for part in report.parts] == [
        ("redis", ("order:*",)),
        ("sqlite", ("*",)),
    ]
    assert (report.verdict, [each.id for each in report.in_the_way]) == ("not safe", ["eviction"])
    with fencelock.Client(routes, diagnose=True) as client:
        with client.lock("another"):
            pass
        with pytest.raises(fencelock.UnsafeEngine):
            client.lock("order:1").acquire()
