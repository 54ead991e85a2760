"""Each check of Redlock on real servers that have the fault, and on some that have not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.doctor.clocks import ShiftedClock
from tests.doctor.examining import bad, check, examined, examined_async, with_status
from tests.servers import HOST, RedisFactory, RedisServer
from tests.servers_redlock import RedlockSet

BOUND = " ".join((HOST, "127.0.0.2", "127.0.0.3"))
"""Loopback has many addresses, so that one machine can look like three."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    with RedlockSet(tmp_path_factory.mktemp("redlock"), nodes=3, bind=BOUND) as running:
        yield running.nodes


def apart(nodes: list[RedisServer]) -> str:
    """The URL of nodes as on machines of their own."""
    hosts = ",".join(f"127.0.0.{n}:{node.port}" for n, node in enumerate(nodes, start=1))
    return f"redlock://{hosts}"


def together(nodes: list[RedisServer]) -> str:
    return "redlock://" + ",".join(node.address for node in nodes)


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_nodes_without_a_fault(nodes: list[RedisServer], examine: object) -> None:
    report = (examined if examine is examined else examined_async)(apart(nodes), probe=True)
    assert with_status(report, "bad", "advice", "unknown") == set()
    assert (report.verdict, len(report.clocks)) == ("efficiency", 3)
    assert check(report, "hand-over").detail.startswith("handed over")


def test_nodes_on_one_machine(nodes: list[RedisServer]) -> None:
    report = examined(together(nodes))
    assert bad(report) == {"machines"}
    assert check(report, "machines").detail == f"3 of 3 nodes are on {HOST}"


def test_two_urls_of_one_server(nodes: list[RedisServer]) -> None:
    url = f"redlock://{HOST}:{nodes[0].port},127.0.0.2:{nodes[0].port},127.0.0.3:{nodes[1].port}"
    report = examined(url)
    assert (bad(report), report.verdict) == ({"independence"}, "not safe")
    assert str(nodes[1].port) not in check(report, "independence").detail
    with (
        fencelock.Client(url, diagnose=True) as client,
        pytest.raises(fencelock.UnsafeEngine, match="the same server"),
    ):
        client.lock("x").acquire()


def test_replicas_and_nodes_of_a_cluster(
    nodes: list[RedisServer], redis_server: RedisFactory
) -> None:
    replica = redis_server(bind=BOUND, replicaof=f"{HOST} {nodes[0].port}")
    replica.wait_for_sync()
    report = examined(apart([nodes[0], nodes[1], replica]))
    assert (bad(report), report.verdict) == ({"role"}, "not safe")
    assert str(replica.port) in check(report, "role").detail
    assert check(examined(apart(nodes)), "role").status == "advice", "the first one has a replica"
    replica.kill()
    clustered = redis_server(bind=BOUND, cluster_enabled="yes")
    report = examined(apart([nodes[1], nodes[2], clustered]))
    assert "of a Redis Cluster" in check(report, "role").detail
    assert (bad(report), report.verdict) == ({"role"}, "not safe")


def test_an_even_number_and_nodes_that_are_down(nodes: list[RedisServer]) -> None:
    url = apart(nodes) + ",127.0.0.4:1"
    report = examined(url)
    assert (bad(report), report.verdict) == ({"reachable"}, "efficiency")
    assert check(report, "majority").status == "advice"
    report = examined(f"redlock://{nodes[0].address},127.0.0.4:1,127.0.0.5:1")
    assert (bad(report), report.verdict) == ({"reachable", "majority"}, "not safe")


def test_a_node_that_evicts(nodes: list[RedisServer]) -> None:
    nodes[2].config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    report = examined(apart(nodes))
    nodes[2].config(maxmemory="0", maxmemory_policy="noeviction")
    assert (bad(report), report.verdict) == ({"eviction"}, "not safe")
    assert check(report, "eviction").servers == (f"127.0.0.3:{nodes[2].port}",)


def test_what_a_restart_forgets(nodes: list[RedisServer]) -> None:
    before = check(examined(apart(nodes)), "restarts")
    assert "lets it wait" in before.detail
    for node in nodes:
        node.config(appendfsync="always", appendonly="yes")
    assert check(examined(apart(nodes)), "restarts").detail == "after a restart it votes at once"
    for node in nodes:
        node.config(appendonly="no")


def test_clocks_that_differ(
    nodes: list[RedisServer],
    redis_server: RedisFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = ShiftedClock(tmp_path)
    clock.set(-2.0)
    with clock.loaded(monkeypatch):
        wrong = redis_server(bind=BOUND)
    report = examined(apart([*nodes[:2], wrong]), ttl=150)
    assert bad(report) == {"clock"}
    assert f"127.0.0.3:{wrong.port} is -2 s off" in check(report, "clock").detail
