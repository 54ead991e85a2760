"""A real Prometheus sees what happens to the locks of two processes, in good times and in bad."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.child import Child
from tests.observe.shop import NAME
from tests.servers import HOST, RedisServer
from tests.servers_prometheus import PrometheusServer
from tests.waiting import eventually

RULES = Path(__file__).parent.parent.parent / "ops" / "prometheus"
TTL = 2.0


class Scene:
    """Two shops with one Redis, and a Prometheus that watches them."""

    def __init__(self, redis: RedisServer, folder: Path, running: ExitStack) -> None:
        self.redis = redis
        store = str(folder / "store")
        self.shops = [
            running.enter_context(Child(redis.url, store, program="tests.observe.shop"))
            for _ in range(2)
        ]
        targets = [f"{HOST}:{shop.call('port')}" for shop in self.shops]
        rules = [RULES / "fencelock.objectives.yml", RULES / "fencelock.rules.yml"]
        self.prometheus = running.enter_context(
            PrometheusServer(folder / "prometheus", targets=targets, rules=rules)
        )

    def work(self, orders: int) -> None:
        """Both shops take so many orders, at the same time."""
        for shop in self.shops:
            shop.send("work", orders=orders)
        for shop in self.shops:
            assert shop.receive() == orders

    def shows(self, promql: str, value: float) -> None:
        """Wait until Prometheus has this value."""
        eventually(lambda: self.prometheus.value(promql) == value, f"{promql} to be {value}")


@pytest.fixture
def scene(tmp_path: Path, redis_server: Callable[[], RedisServer]) -> Iterator[Scene]:
    with ExitStack() as running:
        yield Scene(redis_server(), tmp_path, running)


def test_prometheus_has_the_true_counts(scene: Scene) -> None:
    prometheus, (first, second) = scene.prometheus, scene.shops
    granted = 'sum(fencelock_acquire_wait_seconds_count{group="order", outcome="granted"})'
    scene.work(50)
    scene.shows(granted, 100)
    scene.shows('sum(fencelock_lease_held_seconds_count{end="released"})', 100)
    scene.shows('sum(fencelock_engine_requests_total{outcome!="ok"}) or vector(0)', 0)
    scene.shows("sum(fencelock_leases)", 0)
    assert prometheus.firing() == set(), "all is quiet"
    (p99,) = prometheus.query(
        "histogram_quantile(0.99, sum by (le) (fencelock_acquire_wait_seconds_bucket))"
    )
    assert 0 < p99.value < 60
    assert NAME not in str(prometheus.query('{__name__=~"fencelock_.*"}')), "names are no labels"

    # One is stopped past its ttl while it holds the lock. The other takes over and writes.
    first.call("acquire", name=NAME, ttl=TTL)
    scene.shows('sum(fencelock_leases{state="held"})', 1)
    first.stop()
    second.call("acquire", name=NAME, ttl=60)
    assert second.call("write") == "written"
    first.go_on()
    assert first.call("write")["error"] == "StaleFence", "the storage refuses the stale holder"
    scene.shows('sum(fencelock_stale_fences_total{guard="file", group="order"})', 1)
    scene.shows('sum(fencelock_leases_lost_total{group="order", reason="expired"})', 1)
    scene.shows('sum(fencelock_abandoned_total{group="order"})', 1)
    scene.shows(granted, 102)
    eventually(lambda: "FencelockStaleFence" in prometheus.firing(), "the alert")
    second.call("release")

    # The engine is frozen: requests have no answer, and the lease is in doubt.
    second.call("acquire", name=NAME, ttl=6)
    scene.redis.freeze()
    try:
        suspended = 'sum(fencelock_leases{state="suspended"})'
        scene.shows(suspended, 1)
    finally:
        scene.redis.thaw()
    scene.shows(suspended, 0)
    failed = 'sum(fencelock_engine_requests_total{operation="renew", outcome="unknown"})'
    eventually(lambda: (prometheus.value(failed) or 0) >= 1, "a request without an answer")
    second.call("release")
    scene.shows('sum(fencelock_lease_held_seconds_count{end="released"})', 102)
    scene.shows("sum(fencelock_fence_regressions_total) or vector(0)", 0)
