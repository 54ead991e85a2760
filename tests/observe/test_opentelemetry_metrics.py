"""Metrics of locks, as the SDK of OpenTelemetry records them."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider

import fencelock
from fencelock import observe
from fencelock.guards import FencedFile
from fencelock.guards.lease_like import RemoteLease
from fencelock.observe.opentelemetry import Meters, meters
from tests.io.test_fork import in_child
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory
from tests.waiting import eventually, soon

pytestmark = pytest.mark.usefixtures("patient")

INSTRUMENTS = {
    "fencelock.acquire.wait": "s",
    "fencelock.lease.held": "s",
    "fencelock.renewal.margin": "s",
    "fencelock.engine.request": "s",
    "fencelock.engine_requests": "{request}",
    "fencelock.leases": "{lease}",
    "fencelock.waiters": "{waiter}",
    "fencelock.oldest_wait": "s",
    "fencelock.leases_lost": "{lease}",
    "fencelock.abandoned": "{lease}",
    "fencelock.stale_fences": "{write}",
    "fencelock.fence_regressions": "{fence}",
    "fencelock.held_long": "{lease}",
    "fencelock.pauses": "{pause}",
    "fencelock.paused": "s",
}


class Measured:
    """An observer that measures, and what it has measured."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        provider = MeterProvider([self._reader], shutdown_on_exit=False)
        self.meters = Meters({"order:*": "order"}, provider)

    def all(self) -> dict[str, Any]:
        data: Any = self._reader.get_metrics_data()
        return {
            metric.name: metric
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def points(self, name: str) -> dict[tuple[Any, ...], Any]:
        """The measurements of an instrument, by the values of their attributes: a number or a count."""
        metric = self.all().get(f"fencelock.{name}")
        return {
            tuple(point.attributes.values()): getattr(point, "count", getattr(point, "value", None))
            for point in (metric.data.data_points if metric else ())
        }


@pytest.fixture
def measured() -> Measured:
    return Measured()


@pytest.fixture
def name() -> str:
    return f"order:{uuid4().hex}"


def test_acquiring_and_holding(redis_url: str, measured: Measured, name: str) -> None:
    with fencelock.Client(redis_url, observers=[measured.meters]) as client:

        def in_vain() -> None:
            assert client.lock(name).try_acquire() is None
            with suppress(fencelock.LockTimeout):
                client.lock(name).acquire(timeout=0.01)

        with client.lock(name):
            thread = threading.Thread(target=in_vain)
            thread.start()
            thread.join()
        with client.rwlock("elsewhere").read() as lease:
            lease.renew()
        with suppress(fencelock.LeaseLost), client.lock(name):
            client.break_lock(name)
        lease = client.lock(name).acquire()
    assert measured.points("acquire.wait") == {
        ("redis", "lock", "order", "granted"): 3,
        ("redis", "lock", "order", "refused"): 1,
        ("redis", "lock", "order", "timeout"): 1,
        ("redis", "read", "other", "granted"): 1,
    }
    assert measured.points("lease.held") == {
        ("redis", "lock", "order", "released"): 1,
        ("redis", "lock", "order", "lost"): 1,
        ("redis", "lock", "order", "closed"): 1,
        ("redis", "read", "other", "released"): 1,
    }
    assert measured.points("leases_lost") == {("redis", "order", "evicted"): 1}
    assert measured.points("renewal.margin") == {("redis", "other"): 1}
    requests = measured.points("engine_requests")
    assert requests == measured.points("engine.request")
    assert requests["redis", "enter", "ok"] >= 6
    (margin,) = measured.all()["fencelock.renewal.margin"].data.data_points
    assert 0 < margin.sum < lease.ttl
    assert margin.explicit_bounds == meters._BOUNDS


async def test_giving_up_and_what_is_waited_for(measured: Measured, name: str) -> None:
    url = f"memory://{name}"
    async with fencelock.AsyncClient(url, observers=[measured.meters]) as client:
        async with client.lock(name):
            waiter = asyncio.create_task(client.lock(name).acquire())
            await soon(lambda: measured.points("waiters").get(("memory", "order")), "the waiter")
            assert measured.points("leases") == {("memory", "held"): 1, ("memory", "suspended"): 0}
            before = measured.points("oldest_wait")["memory", "order"]
            assert measured.points("oldest_wait")["memory", "order"] > before >= 0
            waiter.cancel()
            await asyncio.wait([waiter])
            assert measured.points("waiters") == {("memory", "order"): 0}
            assert measured.points("oldest_wait") == {("memory", "order"): 0}
        assert measured.points("leases") == {("memory", "held"): 0, ("memory", "suspended"): 0}
    assert measured.points("acquire.wait") == {
        ("memory", "lock", "order", "granted"): 1,
        ("memory", "lock", "order", "cancelled"): 1,
    }


def test_a_lease_that_is_suspended(
    redis_server: RedisFactory, tcp_proxy: Callable[[int], TcpProxy], measured: Measured, name: str
) -> None:
    way = tcp_proxy(redis_server().port)
    client = fencelock.Client(f"redis://{HOST}:{way.port}", ttl=6, observers=[measured.meters])
    with client, client.lock(name):
        way.refuse()
        eventually(lambda: measured.points("leases")["redis", "suspended"], "the suspension")
        assert measured.points("leases")["redis", "held"] == 0
        way.heal()
        eventually(lambda: measured.points("leases")["redis", "held"], "the end of it")
    assert {outcome for _, _, outcome in measured.points("engine_requests")} > {"ok"}
    assert measured.points("renewal.margin")


def test_a_holder_that_is_stale_and_a_fence_that_falls(
    measured: Measured, name: str, tmp_path: Path
) -> None:
    file = FencedFile(tmp_path / "report")
    client = fencelock.Client("memory://", observers=[measured.meters])
    with client, client.lock(name) as lease:
        file.write(b"newer", RemoteLease(name, lease.fence + 1, "f" * 32))
        with pytest.raises(fencelock.StaleFence):
            file.write(b"old", lease)
    assert measured.points("stale_fences") == {("file", "order"): 1}
    measured.meters(observe.FenceFell(name, "etcd", 3, 4))
    assert measured.points("fence_regressions") == {("etcd", "order"): 1}


def test_the_instruments_are_those_that_the_page_lists(measured: Measured, name: str) -> None:
    """Each of them is measured once here, so the SDK shows it."""
    observe.add(measured.meters)
    try:
        with fencelock.Client("memory://") as client:
            with client.lock(name) as lease:
                waiter = threading.Thread(target=lambda: client.lock(name).acquire().release())
                waiter.start()
                eventually(lambda: measured.points("waiters"), "the waiter")
                lease.renew()
            waiter.join()
            with suppress(fencelock.LeaseLost), client.lock(name):
                client.break_lock(name)
            with client.lock(name, warn_after=0.01) as lease:
                assert lease.abandoned
                eventually(lambda: measured.points("held_long"), "the warning")
        measured.meters(observe.StaleFence(name, "file", 3, 4))
        measured.meters(observe.FenceFell(name, "etcd", 3, 4))
        measured.meters(observe.Paused("memory", 2.5))
    finally:
        observe.remove(measured.meters)
    assert measured.points("abandoned") == {("memory", "order"): 1}
    assert measured.points("held_long") == {("memory", "order"): 1}
    assert measured.points("paused") == {("memory",): 2.5}
    shown = measured.all()
    assert {each: metric.unit for each, metric in shown.items()} == INSTRUMENTS
    assert all(metric.description for metric in shown.values())
    page = (Path(__file__).parents[2] / "docs" / "observing" / "traces.md").read_text()
    rows = re.findall(r"^\| `(fencelock\.\S+)` \| .+? \| (\S+) \| (.+?) \|", page, re.MULTILINE)
    assert {each: unit for each, unit, _ in rows} == INSTRUMENTS
    for each, _, attributes in rows:
        (point, *_) = shown[each].data.data_points
        assert attributes.split(", ") == list(point.attributes), each
    assert name not in repr(shown)


def test_an_exemplar_is_the_callers_span(measured: Measured, name: str) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("tests")
    client = fencelock.Client("memory://", observers=[measured.meters])
    with client, tracer.start_as_current_span("the caller") as caller, client.lock(name):
        pass
    (point,) = measured.all()["fencelock.acquire.wait"].data.data_points
    (exemplar,) = point.exemplars
    assert exemplar.span_id == caller.get_span_context().span_id


def test_an_observer_that_is_removed_shows_nothing_as_held(measured: Measured, name: str) -> None:
    with fencelock.Client("memory://") as client:
        observe.add(measured.meters)
        with client.lock(name):
            assert measured.points("leases")["memory", "held"] == 1
            observe.remove(measured.meters)
        assert measured.points("leases")["memory", "held"] == 0


def test_a_signal_handler_uses_a_lock_while_the_counts_are_read(
    measured: Measured, name: str
) -> None:
    over = threading.Event()

    def read() -> None:
        reading = measured.meters._mutex
        with reading, client.lock(name):
            over.set()

    with fencelock.Client("memory://", observers=[measured.meters]) as client:
        threading.Thread(target=read, daemon=True).start()
        eventually(over.is_set, "the lock of the handler")


def test_a_forked_child_begins_at_zero(measured: Measured, name: str) -> None:
    with fencelock.Client("memory://", observers=[measured.meters]) as client, client.lock(name):

        def count() -> str:
            before = measured.points("leases"), measured.points("engine_requests")
            with client.lock(name):
                return f"{before} {measured.points('leases')}"

        with measured.meters._mutex:  # as if another thread were busy with it
            said = in_child(count)
        assert said == f"({{}}, {{}}) {measured.points('leases')}"


def test_tickets_whose_end_is_not_told_are_forgotten(
    measured: Measured, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meters, "LIMIT", 2)
    with fencelock.Client("memory://", observers=[measured.meters]) as client:
        with client.lock_all([f"{name}:{each}" for each in range(3)]):
            assert measured.points("leases")["memory", "held"] == 2
        assert measured.points("leases")["memory", "held"] == 0
