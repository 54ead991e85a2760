"""Spans of acquiring and holding, as the SDK of OpenTelemetry records them."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from opentelemetry.trace import StatusCode

import fencelock
from tests.cutting_short import CancelledAt
from tests.deeds import DEEDS, done, drive
from tests.effort import effort
from tests.observe.spans import (
    ACQUIRE,
    HOLD,
    Spans,
    attributes,
    check_times,
    linked,
    number,
    parent,
)
from tests.proxy import TcpProxy
from tests.servers import HOST, RedisFactory
from tests.waiting import eventually, soon, within

FACES = {"sync": fencelock.Client, "async": fencelock.AsyncClient}

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture(params=["memory", "redis"])
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(request: pytest.FixtureRequest, engine: str) -> str:
    if engine == "memory":
        return f"memory://{uuid4().hex}"
    return str(request.getfixturevalue("redis_url"))


@pytest.fixture
def spans() -> Spans:
    return Spans(groups={"order:*": "order"})


@pytest.fixture
def name() -> str:
    return f"order:{uuid4().hex}"


@pytest.fixture
def client(url: str, spans: Spans) -> Iterator[fencelock.Client]:
    with fencelock.Client(url, ttl=30, observers=spans.observers) as client:
        yield client


def started(act: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


# --- what spans look like


def test_both_spans_are_in_the_callers_span(
    client: fencelock.Client, spans: Spans, engine: str, name: str
) -> None:
    with spans.inside() as caller, client.lock(name) as lease:
        assert spans.all(ACQUIRE)
        assert spans.still_open() == 2, "the caller's span, and the span of holding"
    acquire, hold = spans.one(ACQUIRE), spans.one(HOLD)
    assert parent(acquire) == parent(hold) == caller
    check_times(acquire, hold)
    both = {
        "lock.engine": engine,
        "lock.kind": "lock",
        "lock.group": "order",
        "lock.fence": lease.fence,
        "lock.abandoned": False,
    }
    waited = attributes(acquire)["lock.waited_ms"]
    assert attributes(acquire) == both | {"lock.outcome": "granted", "lock.waited_ms": waited}
    assert attributes(hold) == both | {"lock.end": "released"}
    assert acquire.status.status_code is hold.status.status_code is StatusCode.UNSET
    assert spans.are_complete()


def test_without_a_span_of_the_caller_they_begin_traces_of_their_own(
    client: fencelock.Client, spans: Spans, name: str
) -> None:
    with client.lock(name):
        pass
    assert parent(spans.one(ACQUIRE)) is parent(spans.one(HOLD)) is None


@pytest.mark.parametrize("face", FACES)
async def test_every_primitive_is_in_the_callers_span(url: str, spans: Spans, face: str) -> None:
    client: Any = FACES[face](url, observers=spans.observers)
    for word, deed in DEEDS.items():
        before = len(spans.all(ACQUIRE))

        async def body() -> None:
            if face == "async":
                await asyncio.sleep(0)

        with spans.inside(word) as caller:
            doing = deed.do(client, f"order:{uuid4().hex}", body)
            if face == "async":
                await doing
            else:
                drive(doing)
        made = spans.all(ACQUIRE)[before:]
        assert made, word
        assert {parent(span) for span in made} == {caller}, word
    assert {span.attributes["lock.kind"] for span in spans.all(HOLD) if span.attributes} == {
        "lock",
        "rate",
        "read",
        "semaphore",
    }
    callers = {parent(span) for span in spans.all(ACQUIRE)}
    assert {parent(span) for span in spans.all(HOLD)} == callers
    assert len(callers) == len(DEEDS)
    for span in spans.all(ACQUIRE):
        check_times(span)
    await soon(spans.are_complete, "the end of all spans")
    await done(client.close())


@pytest.mark.parametrize("names", [False, True])
def test_a_name_is_shown_on_request_and_an_id_never(url: str, name: str, names: bool) -> None:
    spans = Spans(names=names)
    with fencelock.Client(url, observers=spans.observers) as client, client.lock(name) as lease:
        pass
    for span in (spans.one(ACQUIRE), spans.one(HOLD)):
        assert attributes(span).get("lock.name") == (name if names else None)
        assert attributes(span)["lock.group"] == "other"
        shown = span.to_json()
        assert lease.id not in shown
        assert names or name not in shown


# --- how an attempt can end


def test_a_waiter_has_links_to_the_holders_that_it_waited_for(
    client: fencelock.Client, spans: Spans, name: str
) -> None:
    let_go = threading.Event()

    def wait() -> None:
        with spans.inside(), client.lock(name):
            let_go.wait()

    with spans.inside(), client.lock(name):
        second = started(wait)
        eventually(lambda: spans.told["Queued"] == 1, "the second ticket in the queue")
        third = started(wait)
        eventually(lambda: spans.told["Queued"] == 2, "the third ticket in the queue")
    let_go.set()
    for thread in (second, third):
        thread.join()
    holds = sorted(spans.all(HOLD), key=lambda span: attributes(span)["lock.fence"])
    first, middle, _ = holds
    acquires = {attributes(span)["lock.fence"]: span for span in spans.all(ACQUIRE)}
    assert [linked(acquires[attributes(hold)["lock.fence"]]) for hold in holds] == [
        set(),
        {number(first)},
        {number(first), number(middle)},
    ]
    for hold in holds:
        acquire = acquires[attributes(hold)["lock.fence"]]
        check_times(acquire, hold)
        assert parent(acquire) == parent(hold)
    assert len({parent(hold) for hold in holds}) == 3, "each thread has its own span"
    assert spans.are_complete()


async def test_tasks_wait_for_one_another(url: str, spans: Spans, name: str) -> None:
    async with fencelock.AsyncClient(url, observers=spans.observers) as client:

        async def wait() -> int:
            with spans.inside() as caller:
                async with client.lock(name):
                    return caller

        with spans.inside() as caller:
            async with client.lock(name):
                # The task takes over the caller's span, and then has one of its own.
                waiter = asyncio.create_task(wait())
                await soon(lambda: spans.told["Queued"] == 1, "the waiter")
            other = await within(waiter)
    first, second = spans.all(HOLD)
    assert (parent(first), parent(second)) == (caller, other)
    assert linked(spans.all(ACQUIRE)[1]) == {number(first)}
    assert spans.are_complete()


def test_only_what_a_ticket_waited_for_is_linked(
    client: fencelock.Client, spans: Spans, name: str
) -> None:
    def read() -> None:
        with client.rwlock(name).read():
            both.wait()

    both = threading.Barrier(3)
    with client.rwlock(name).write():
        readers = [started(read) for _ in range(2)]
        eventually(lambda: spans.told["Queued"] == 2, "both readers in the queue")
    both.wait()
    for thread in readers:
        thread.join()
    writer = spans.one(HOLD, kind="lock")
    assert [linked(span) for span in spans.all(ACQUIRE, kind="read")] == [{number(writer)}] * 2
    with client.semaphore(name, permits=9).acquire(), client.semaphore(name, permits=9).acquire():
        pass
    assert not any(linked(span) for span in spans.all(ACQUIRE, kind="semaphore"))
    assert spans.are_complete()


def test_a_caller_that_is_refused_or_runs_out_of_time(
    client: fencelock.Client, spans: Spans, name: str
) -> None:
    def try_in_vain() -> None:
        with spans.inside():
            assert client.lock(name).try_acquire() is None
            with pytest.raises(fencelock.LockTimeout):
                client.lock(name).acquire(timeout=0.01)

    with client.lock(name):
        started(try_in_vain).join()
    hold = spans.one(HOLD)
    for outcome in ("refused", "timeout"):
        span = spans.one(ACQUIRE, outcome=outcome)
        assert span.status.status_code is StatusCode.UNSET, "an answer, not an error"
        assert linked(span) == {number(hold)}
        assert "lock.fence" not in attributes(span)
        check_times(span)
    assert spans.are_complete()


async def test_a_caller_that_is_cancelled(url: str, spans: Spans, name: str) -> None:
    async with fencelock.AsyncClient(url, observers=spans.observers) as client:

        async def wait() -> None:
            with spans.inside():
                await client.lock(name).acquire()

        async with client.lock(name):
            waiter = asyncio.create_task(wait())
            await soon(lambda: spans.told["Queued"] == 1, "the waiter")
            waiter.cancel()
            with suppress(asyncio.CancelledError):
                await waiter
            span = spans.one(ACQUIRE, outcome="cancelled")
        assert span.status.status_code is StatusCode.UNSET
        assert linked(span) == {number(spans.one(HOLD))}
        assert parent(span) is not None
        assert spans.are_complete()


async def test_cancelled_at_every_await(redis_url: str, spans: Spans, name: str) -> None:
    async with fencelock.AsyncClient(redis_url, observers=spans.observers) as client:

        async def body() -> None:
            await asyncio.sleep(0)

        for k in count():
            attempt = CancelledAt(DEEDS["lock"].do(client, name, body), k)

            async def act(attempt: CancelledAt = attempt) -> None:
                await attempt

            await asyncio.gather(asyncio.create_task(act()), return_exceptions=True)
            if not attempt.reached:
                break
        assert spans.all(ACQUIRE, outcome="cancelled")
        await soon(spans.are_complete, "the end of all spans")


def test_an_engine_that_is_away(redis_server: RedisFactory, spans: Spans, name: str) -> None:
    server = redis_server()
    with fencelock.Client(server.url, observers=spans.observers) as client:
        server.kill()
        with spans.inside() as caller, pytest.raises(fencelock.EngineError):
            client.lock(name).acquire()
    span = spans.one(ACQUIRE, outcome="error")
    assert parent(span) == caller
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description == attributes(span)["error.type"] == "EngineError"
    assert spans.are_complete()


# --- what can happen to a lease


def test_a_lease_that_is_broken(client: fencelock.Client, spans: Spans, name: str) -> None:
    with spans.inside() as caller:
        lease = client.lock(name).acquire()
        client.break_lock(name)
        hold = spans.one(HOLD, end="lost")
        with pytest.raises(fencelock.LeaseLost):
            lease.release()
    assert parent(hold) == caller
    assert attributes(hold)["error.type"] == "evicted"
    assert hold.status.status_code is StatusCode.ERROR
    assert hold.status.description == "the lease was lost: evicted"
    assert spans.are_complete()


async def test_a_lease_that_expires(spans: Spans, name: str) -> None:
    async with fencelock.AsyncClient("memory://", ttl=0.5, observers=spans.observers) as client:
        with spans.inside() as caller, pytest.raises(fencelock.LeaseLost):
            async with client.lock(name):
                time.sleep(0.6)  # noqa: ASYNC251 - the loop stands still, so nothing is renewed
        async with client.lock(name, ttl=30):
            pass
    lost = spans.one(HOLD, end="lost")
    assert (parent(lost), attributes(lost)["error.type"]) == (caller, "expired")
    assert spans.one(ACQUIRE, abandoned=True)
    assert spans.one(HOLD, abandoned=True)
    assert spans.are_complete()


def test_a_lease_that_is_dropped(client: fencelock.Client, spans: Spans, name: str) -> None:
    client.lock(name, ttl=1).acquire()
    assert attributes(spans.one(HOLD, end="lost"))["error.type"] == "dropped"
    assert spans.are_complete()


def test_a_client_that_is_closed(url: str, spans: Spans, name: str) -> None:
    with spans.inside() as caller, fencelock.Client(url, observers=spans.observers) as client:
        lease = client.lock(name).acquire()
    hold = spans.one(HOLD, end="closed")
    assert hold.status.status_code is StatusCode.UNSET
    assert parent(hold) == caller
    assert spans.are_complete()
    with pytest.raises(fencelock.LeaseLost):
        lease.check()


def test_an_engine_that_is_away_for_a_moment(
    redis_server: RedisFactory,
    tcp_proxy: Callable[[int], TcpProxy],
    spans: Spans,
    name: str,
) -> None:
    way = tcp_proxy(redis_server().port)
    way_url = f"redis://{HOST}:{way.port}"
    client = fencelock.Client(way_url, ttl=6, observers=spans.observers)
    with client, client.lock(name) as lease:
        lease.renew()
        way.refuse()
        eventually(lambda: spans.told["Suspended"], "the suspension")
        way.heal()
        eventually(lambda: spans.told["Resumed"], "the end of it")
    hold = spans.one(HOLD, end="released")
    suspended, resumed = hold.events
    assert (suspended.name, resumed.name) == ("lock.suspended", "lock.resumed")
    assert 0 < (suspended.attributes or {})["lock.remaining_ms"] < 6_000  # type: ignore[operator]
    assert attributes(hold)["lock.renewals"] == spans.told["Renewed"] >= 2
    assert 0 < attributes(hold)["lock.lowest_margin_ms"] < 6_000


def test_a_lease_that_is_held_for_long(client: fencelock.Client, spans: Spans, name: str) -> None:
    with client.lock(name, warn_after=0.02):
        eventually(lambda: spans.told["HeldLong"], "the warning")
    (event,) = spans.one(HOLD).events
    assert event.name == "lock.held_long"
    about = dict(event.attributes or {})
    assert about["lock.held_ms"] >= 20  # type: ignore[operator]
    assert __file__ in str(about["code.stacktrace"])


# --- all at once


def test_a_crowd(client: fencelock.Client, spans: Spans, name: str) -> None:
    """Each attempt has one span, each lease has one, and nothing stays open."""

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(effort(12, 300)):
            lock = client.lock(f"{name}:{chance.randrange(2)}")
            with spans.inside(), suppress(fencelock.FencelockError):
                lease = lock.acquire(timeout=chance.choice([0, 0.001, 0.01, None]))
                with lease:
                    time.sleep(chance.choice([0, 0, 0.002]))
                    if chance.random() < 0.1:
                        client.break_lock(lease.name)

    threads = [started(lambda seed=seed: work(seed)) for seed in range(6)]  # type: ignore[misc]
    for thread in threads:
        thread.join()
    eventually(spans.are_complete, "the end of all spans")
    assert {len(linked(span)) for span in spans.all(ACQUIRE)} >= {0, 1}
    holds = {number(span) for span in spans.all(HOLD)}
    assert all(linked(span) <= holds for span in spans.all(ACQUIRE))
