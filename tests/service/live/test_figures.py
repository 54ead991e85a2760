"""The figures of the last hour: samples of what a replica has counted."""

from __future__ import annotations

import pytest

from fencelock.core.ticket import Owner
from fencelock.engines.http.wire import Evict, Inspect
from fencelock.observe.events import EngineRequest, Renewed
from fencelock.service.app import Service
from fencelock.service.counters import Counters
from fencelock.service.live import figures
from fencelock.service.live.figures import Figures, quantile
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket


async def test_a_sample_of_a_replica() -> None:
    service = Service(memory())
    taken, began = service.watch.figures, service.watch.figures.started
    async with serving(service) as url, raw_line(url) as line:
        holder, waiter = ticket("x"), ticket("x")
        await line.enter(holder)
        await line.enter(waiter)
        await line.enter(ticket("y"))
        taken.sample(began + 4.0)
        await line.ask(Evict("x", timeout=5.0))
        await line.renew(holder)
        await line.wake()
        taken.sample(began + 8.0)
        requests = taken.since(0.0).points.engine_p50
        await line.ask(Inspect("x", 5.0, 0))
        taken.sample(began + 12.0)
    found = taken.since(0.0)
    assert (found.replica, found.started, found.reached) == (service.replica, began, True)
    points = found.points
    assert points.time == [began + 4.0, began + 8.0, began + 12.0]
    assert points.grants == [0.5, 0.25, 0.0]
    assert points.waiters == [1, 0, 0]
    assert points.lost == [0, 1, 0]
    assert points.errors == [0, 0, 0]
    assert points.wait_p50[0] is not None
    assert points.wait_p50[2] is points.wait_p99[2] is None
    assert None not in requests
    assert points.engine_p99[2] is None, "what a page asks is not counted"
    assert taken.since(began + 8.0).points.time == [began + 12.0]
    assert taken.since(began + 12.0).points.time == []


def test_what_is_in_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_POINTS", 3)
    counters = Counters({}, dict)
    taken = Figures("replica", counters, 100.0)
    lease = ("x", "memory", "lock", Owner("host", 1), 1, 7)
    for number in range(1000):
        counters.record(Renewed, (*lease, 0.4 if number < 20 else 20.0))
        counters.record(EngineRequest, ("memory", "enter", "ok", 0.2 if number < 20 else 0.0003))
    counters.record(EngineRequest, ("memory", "renew", "unknown", 2.0))
    counters.record(EngineRequest, ("memory", "leave", "not applied", 2.0))
    counters.record(EngineRequest, ("memory", "enter", "cancelled", 200.0))
    counters.record(EngineRequest, ("memory", "names", "unknown", 200.0))
    taken.sample(105.0)
    points = taken.since().points
    assert points.errors == [2]
    (margin,), (p50,), (p99,) = points.margin, points.engine_p50, points.engine_p99
    assert margin is not None
    assert p50 is not None
    assert p99 is not None
    assert 0.25 < margin < 0.5
    assert 0.00025 < p50 < 0.0005
    assert 0.1 < p99 < 0.25
    taken.sample(99.0)  # somebody has set the clock
    for later in range(4):
        taken.sample(110.0 + later)
    points = taken.since().points
    assert points.time == [111.0, 112.0, 113.0]
    assert points.errors == [0, 0, 0]
    assert points.margin == [None] * 3


def test_quantiles() -> None:
    limits = (1.0, 2.0, 4.0)
    assert quantile([0, 0, 0, 0], limits, 0.5) is None
    assert quantile([0, 4, 0, 0], limits, 0.5) == 1.5
    assert quantile([4, 0, 0, 0], limits, 0.5) == 0.5
    assert quantile([1, 1, 1, 0], limits, 1.0) == 4.0
    assert quantile([50, 0, 50, 0], limits, 0.75) == 3.0
    assert quantile([0, 0, 1, 99], limits, 0.99) == 4.0, "above all limits"
