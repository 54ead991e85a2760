"""What people and machines watch a replica with: its life, its readiness, its health, metrics and events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from time import monotonic, time
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from aiohttp.web_urldispatcher import AbstractRoute

from fencelock.core.errors import EngineError
from fencelock.core.version import __version__
from fencelock.engines.contract import Engine
from fencelock.engines.http.wire import PATH, encode
from fencelock.io.contract import IO
from fencelock.observe import families
from fencelock.observe.audience import Audience
from fencelock.observe.events import StaleFence
from fencelock.service.counters import Counters
from fencelock.service.events import Hub
from fencelock.service.health import EngineHealth, Health
from fencelock.service.live.figures import EVERY, Figures
from fencelock.service.live.history import History
from fencelock.service.settings import Settings
from fencelock.service.sightings import WatchedEngine

if TYPE_CHECKING:
    from fencelock.service.app import Service

PROBE_TIMEOUT = 1.0
"""Seconds after which an engine that does not answer counts as away."""

_PROBED_FOR = 1.0
"""Seconds for which the answer of a probe is good. So nobody can burden the engine with health checks."""

PROBED = "fencelock-health"
"""A name that nobody needs. Every engine can say cheaply that nobody holds it."""

_EVENTS = "/v1/events"
LIVE = "/v1/live"
_STREAMS = (PATH, _EVENTS, LIVE)


class Watch:
    """The eyes of one replica. `engine` is its engine, watched."""

    def __init__(
        self,
        service: Service,
        engine: Engine,
        io: IO,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self._service = service
        self.counters = Counters(dict(settings.groups), self._state)
        self.history = History(service.replica)
        self.audience = Audience([self.counters, self.history])
        self.plain_engine = engine
        """The engine itself. What is asked of it does not look like a request of a client."""
        self.engine = WatchedEngine(engine, self.audience, io.now)
        self.figures = Figures(service.replica, self.counters, time())
        self.hub = Hub(self.audience, service.replica, settings.event_streams)
        self._probe: tuple[float, asyncio.Task[EngineHealth]] | None = None

    def _state(self) -> Mapping[families.Family, float]:
        return {
            families.SERVICE_READY: not self._service.draining,
            families.SERVICE_LINES: len(self._service.lines),
            families.SERVICE_PARKED: self.engine.parked,
        }

    def refused_write(self, name: str, given: int, newest: int) -> None:
        """A guard somewhere else asked about a fence, and was told that its holder is stale."""
        self.audience.tell(StaleFence, (name, "check", given, newest))

    async def health(self) -> Health:
        """The state of the replica and its engine."""
        service = self._service
        if self._probe is None or monotonic() - self._probe[0] > _PROBED_FOR:
            self._probe = monotonic(), asyncio.create_task(self._ask_engine())
        # Shielded: one that goes away must not end the probe for the others.
        engine = await asyncio.shield(self._probe[1])
        status = "ok" if engine.reachable else "degraded"
        return Health(status, engine, service.draining, service.replica, __version__)

    async def _ask_engine(self) -> EngineHealth:
        began, label = monotonic(), self.engine.label
        try:
            await self.engine.inspect(PROBED, limit=0, timeout=PROBE_TIMEOUT)
        except EngineError as error:
            return EngineHealth(label, False, monotonic() - began, str(error))
        return EngineHealth(label, True, monotonic() - began)

    async def sweeping(self, app: web.Application) -> AsyncIterator[None]:
        """While the application runs, forget silent tickets now and then, and sample the figures."""
        task = asyncio.create_task(self._sweep())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self.engine.forget_the_silent()
            self.figures.sample(time())


def routes(service: Service) -> list[web.RouteDef]:
    """The routes for watching a replica."""

    async def live(request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def ready(request: web.Request) -> web.Response:
        """An engine that is away does not count: another replica could not reach it either, and only a
        replica that still gets the requests can answer that they were not applied."""
        if service.draining:
            return web.Response(text="draining\n", status=503)
        return web.Response(text="ready\n")

    async def health(request: web.Request) -> web.Response:
        service.identify(request)
        found = await service.watch.health()
        return web.Response(body=encode(found), content_type="application/json")

    async def metrics(request: web.Request) -> web.Response:
        if service.watch.settings.metrics_login:
            service.identify(request)
        text, content_type = service.watch.counters.text(request.headers.get("Accept", ""))
        return web.Response(body=text, headers={"Content-Type": content_type})

    async def events(request: web.Request) -> web.StreamResponse:
        principal = service.identify(request)
        return await service.watch.hub.stream(request, principal, service.identity.again)

    return [
        web.get("/livez", live),
        web.get("/readyz", ready),
        web.get("/v1/health", health),
        web.get("/metrics", metrics),
        web.get(_EVENTS, events),
    ]


def counting(counters: Counters) -> Middleware:
    """Counts each request of HTTP. Those on a line are counted there."""
    known: dict[AbstractRoute, str] = {}

    def route_of(request: web.Request) -> str:
        route = request.match_info.route
        if route not in known:
            if (
                route.resource is None
            ):  # nothing is at this path: anybody can make up any number of them
                return "other"
            known[route] = f"{route.method} {route.resource.canonical}"
        return known[route]

    @web.middleware
    async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
        began, code = monotonic(), 499  # as nginx has it: nobody is there to read the answer
        try:
            response = await handler(request)
            code = response.status
            return response
        except web.HTTPException as error:
            code = error.status
            raise
        finally:
            took = None if request.path in _STREAMS else monotonic() - began
            counters.served(route_of(request), code, took)

    return count
