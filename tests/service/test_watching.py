"""`/livez`, `/readyz`, `/v1/health` and `/metrics`: what they say, and what they never say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as prometheus

from fencelock.core.ticket import Place
from fencelock.engines.http.wire import Enter, Evict
from fencelock.service import sightings
from fencelock.service.app import Service
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused
from fencelock.service.settings import Settings
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import soon

GROUPS = {"groups": (("order:*", "order"),)}


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def get(session: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    async with session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


class Seen:
    """The metrics of one moment."""

    def __init__(self, text: str) -> None:
        self.samples = {
            (sample.name, frozenset(sample.labels.values())): sample.value
            for family in prometheus(text)
            for sample in family.samples
        }

    def __call__(self, name: str, *labels: str) -> float:
        """The value of a metric with these values of labels, in any order."""
        return self.samples[f"fencelock_{name}", frozenset(labels)]


async def metrics(session: aiohttp.ClientSession, url: str) -> Seen:
    return Seen((await get(session, f"{url}/metrics"))[1])


async def test_a_replica_that_drains_is_alive_but_not_ready(session: aiohttp.ClientSession) -> None:
    service = Service(memory())
    async with serving(service) as url:
        assert await get(session, f"{url}/livez") == (200, "alive\n")
        assert await get(session, f"{url}/readyz") == (200, "ready\n")
        assert (await metrics(session, url))("service_ready") == 1
        await service.drain()
        assert await get(session, f"{url}/livez") == (200, "alive\n")
        assert await get(session, f"{url}/readyz") == (503, "draining\n")
        assert (await metrics(session, url))("service_ready") == 0


async def test_the_health_of_an_engine(session: aiohttp.ClientSession) -> None:
    service = Service(memory())
    async with serving(service) as url, session.get(f"{url}/v1/health") as answer:
        found = await answer.json()
    assert found["engine"].pop("latency") < 1
    assert found == {
        "status": "ok",
        "engine": {"kind": "memory", "reachable": True, "detail": ""},
        "draining": False,
        "replica": service.replica,
        "version": service.hello().version,
    }


async def test_an_engine_that_is_away_does_not_make_a_replica_unready(
    session: aiohttp.ClientSession,
) -> None:
    async with serving(
        Service(Settings(engine="redis://127.0.0.1:1"))
    ) as url:  # nobody listens there
        async with session.get(f"{url}/v1/health") as answer:
            found = await answer.json()
        assert (answer.status, found["status"]) == (200, "degraded")
        assert not found["engine"]["reachable"]
        assert found["engine"]["detail"]
        assert (await get(session, f"{url}/readyz"))[0] == 200


async def test_many_health_checks_are_one_probe(session: aiohttp.ClientSession) -> None:
    async with serving(Service(memory())) as url:
        await asyncio.gather(*(get(session, f"{url}/v1/health") for _ in range(20)))
        seen = await metrics(session, url)
        probes = seen("engine_requests_total", "memory", "inspect", "ok")
    assert probes <= 2  # a second may have passed


async def test_what_is_counted(session: aiohttp.ClientSession) -> None:
    async with serving(Service(memory(**GROUPS))) as url, raw_line(url) as line:
        holder, waiter = ticket("order:secret"), ticket("order:secret")
        await line.enter(holder)
        assert (await line.enter(waiter)).place is Place.WAITING

        seen = await metrics(session, url)
        assert seen("service_lines") == 1
        assert seen("service_parked") == 1
        assert seen("waiters", "memory", "order") == 1
        assert seen("leases", "memory", "held") == 1
        assert seen("engine_info", "memory", "correctness", line.hello.version) == 1

        await line.renew(holder)
        await line.leave(holder)
        assert (await line.wake()).standing is not None
        await line.ask(Evict("order:secret", timeout=5.0))
        assert await line.renew(waiter) is Place.GONE
        await get(session, f"{url}/nowhere/order:secret")
        failed = await line.ask(Evict("\0", timeout=5.0))
        assert failed.problem is not None

        seen = await metrics(session, url)
        assert seen("service_parked") == 0
        assert seen("service_requests_total", "line enter", "200") == 2
        assert seen("service_requests_total", "line evict", "400") == 1
        assert seen("service_requests_total", "GET /metrics", "200") == 1
        assert seen("service_requests_total", "other", "404") == 1
        assert seen("service_request_seconds_count", "line leave") == 1
        assert seen("engine_requests_total", "memory", "enter", "ok") == 2
        granted = ("memory", "lock", "order", "granted")
        assert seen("acquire_wait_seconds_count", *granted) == 2
        released = ("memory", "lock", "order", "released")
        assert seen("lease_held_seconds_count", *released) == 1
        assert seen("renewal_margin_seconds_count", "memory", "order") == 1
        assert seen("leases_lost_total", "memory", "order", "evicted") == 1
        assert seen("leases", "memory", "held") == 0
        assert seen("waiters", "memory", "order") == 0
        assert "secret" not in (await get(session, f"{url}/metrics"))[1]


async def test_a_caller_that_is_refused_or_gives_up(session: aiohttp.ClientSession) -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line:
        holder, waiter = ticket("x"), ticket("x")
        await line.enter(holder)
        await line.ask(Enter([ticket("x")], timeout=5.0, if_free=True))
        await line.enter(waiter)
        await line.leave(waiter)
        seen = await metrics(session, url)
    for outcome in ("granted", "refused", "cancelled"):
        assert seen("acquire_wait_seconds_count", "memory", "lock", "other", outcome) == 1


async def test_a_silent_ticket_is_forgotten(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client may ask another replica now, so it does not count as lost."""
    monkeypatch.setattr(sightings, "_GRACE", 0.0)
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line:
        await line.enter(ticket("x", ttl=0.1))

        async def forgotten() -> bool:
            service.watch.engine.forget_the_silent()
            return (await metrics(session, url))("leases", "memory", "held") == 0

        await soon(forgotten, "the ticket to be forgotten")
        seen = await metrics(session, url)
    assert seen("lease_held_seconds_count", "memory", "lock", "other", "closed") == 1
    assert seen("leases_lost_total", "memory", "other", "expired") == 0


async def test_a_lease_that_was_expired_when_it_was_released(
    session: aiohttp.ClientSession,
) -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line:
        late = ticket("x", ttl=0.1)
        await line.enter(late)
        next_one = ticket("x")

        async def admitted() -> bool:
            return (await line.enter(next_one)).place is Place.ADMITTED

        await soon(admitted, "the lease to expire")
        assert not await line.leave(late)
        seen = await metrics(session, url)
    assert seen("leases_lost_total", "memory", "other", "expired") == 1


async def test_a_replica_remembers_only_so_many_tickets(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sightings, "_REMEMBERED", 3)
    async with serving(Service(memory())) as url, raw_line(url) as line:
        for number in range(5):
            await line.enter(ticket(f"x{number}"))
        seen = await metrics(session, url)
    assert seen("leases", "memory", "held") == 3


async def test_openmetrics_for_those_who_ask_for_it(session: aiohttp.ClientSession) -> None:
    async with serving(Service(memory())) as url:
        accept = "application/openmetrics-text; version=1.0.0"
        async with session.get(f"{url}/metrics", headers={"Accept": accept}) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
            families = openmetrics(await answer.text())  # type: ignore[no-untyped-call]
            names = {family.name for family in families}
        assert {"fencelock_service_ready", "process_cpu_seconds"} <= names
        async with session.get(f"{url}/metrics") as answer:
            assert answer.headers["Content-Type"].startswith("text/plain; version=")


async def test_what_others_count(session: aiohttp.ClientSession) -> None:
    service = Service(memory())
    async with serving(service) as url:
        assert (await metrics(session, url))("service_auth_failures_total") == 0
        service.watch.counters.auth_failed()
        service.watch.counters.limited("leases")
        seen = await metrics(session, url)
    assert seen("service_auth_failures_total") == 1
    assert seen("service_limited_total", "leases") == 1


@pytest.mark.parametrize(
    ("login", "expected"),
    [(False, (200, 401, 200)), (True, (401, 401, 200))],
    ids=["open", "login"],
)
async def test_who_needs_a_login(
    session: aiohttp.ClientSession, login: bool, expected: tuple[int, ...]
) -> None:
    class Locked(Service):
        def identify(self, request: web.Request) -> Principal:
            raise Refused("unauthorized", "no")

    async with serving(Locked(memory(metrics_login=login))) as url:
        paths = ("/metrics", "/v1/health", "/readyz")
        assert tuple([(await get(session, url + path))[0] for path in paths]) == expected
