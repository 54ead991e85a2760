"""A replica of the service: its routes, its start and its end."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from aiohttp import web

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Place
from fencelock.core.url import Url
from fencelock.core.version import __version__
from fencelock.engines.http.wire import (
    PATH,
    SUBPROTOCOL,
    AnyAct,
    Enter,
    Hello,
    WireTraits,
)
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.service.acts import Acts
from fencelock.service.addresses import client_of
from fencelock.service.answers import answer, failure_of
from fencelock.service.audit import Audit
from fencelock.service.connections import Connection
from fencelock.service.examination import Examination
from fencelock.service.identity import Identity
from fencelock.service.ledger import Ledger
from fencelock.service.limits import BURST, Limits
from fencelock.service.line import Line
from fencelock.service.live.peers import Peers
from fencelock.service.live.routes import Live
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused
from fencelock.service.rest import routes as rest_routes
from fencelock.service.settings import Settings
from fencelock.service.tokens import Keys
from fencelock.service.watching import Watch, counting
from fencelock.service.watching import routes as watching_routes

_ACTS = (*("enter", "renew", "leave", "park", "evict", "remember", "recall", "inspect", "names"),)

_PRINCIPAL = web.RequestKey("principal", Principal)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

GOODBYE = 0.5
"""Seconds that a client has to answer a close. Nobody reads an idle line of a blocking client."""

_HOUSEKEEPING = 1.0
"""Seconds between two looks for what has expired."""


class Service:
    """One replica. `app` is its aiohttp application. Without `keys`, everybody may do everything."""

    def __init__(self, settings: Settings, keys: Keys | None = None) -> None:
        self.settings = settings
        io = AsyncioIO()
        if Url.parse(settings.engine).namespace is not None:
            raise ValueError(
                "the URL of a service's engine has no namespace: give one to the clients, and rights for it, "
                "such as lock=shop/*, to their tokens"
            )
        engine = open_engine(settings.engine, io)
        if not engine.traits.leases_expire:
            raise Unsupported(
                "a service needs an engine whose leases expire: a session lock lives on one connection, and "
                "the connections here belong to the service, not to the holder"
            )
        if not engine.traits.cross_process and engine.label != "memory":
            raise Unsupported("a service needs an engine that other processes can reach")
        self.identity = Identity(keys, settings)
        self.audit = Audit(settings.audit)
        self.draining = False
        self.replica = secrets.token_hex(8)
        self.lines: set[Line] = set()
        self.peers = Peers(settings.peers, self.replica)
        self.watch = Watch(self, engine, io, settings)
        ledger = Ledger(self.audit, self.watch.counters, BURST * settings.rate)
        self.examination = Examination(engine, io, self.replica)
        limits = Limits(settings, ledger)
        self.acts = Acts(self.watch.engine, io, limits, ledger, self.examination)
        self.under_way = 0
        """Requests that are not answered yet, and lines that are open."""
        self._at_rest = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_drain: list[Callable[[], Awaitable[None]]] = []
        """What has waits of its own to end."""
        self.app = web.Application(
            client_max_size=settings.max_message,
            middlewares=[counting(self.watch.counters), self._gate],
        )
        self.app.cleanup_ctx.append(self.watch.sweeping)
        self.app.add_routes(watching_routes(self))
        self.app.router.add_get(PATH, self._line)
        self.app.router.add_get("/v1/info", self._info)
        for operation in _ACTS:
            self.app.router.add_post(f"/v1/{operation}", self._act)
        self.live = Live(self)
        self.app.add_routes(self.live.routes())
        self.app.add_routes(rest_routes(self))
        self.app.on_startup.append(self._begin)
        self.app.on_cleanup.append(self._close)

    def identify(self, request: web.Request) -> Principal:
        """Who asks. Raises `Refused`."""
        known: Principal | None = request.get(_PRINCIPAL)
        if known is None:
            known = request[_PRINCIPAL] = self.identity.identify(request)
        return known

    def hello(self) -> Hello:
        """What a client learns first."""
        engine = self.acts.engine
        return Hello(__version__, engine.label, WireTraits.pack(engine.traits), self.replica)

    # --- the end, and new tokens

    async def drain(self) -> None:
        """End all waits, send the clients with lines elsewhere, and let what is under way end."""
        self.draining = True
        self.watch.hub.drain()
        self.live.pages.drain()
        for end in self.on_drain:
            await end()
        self.acts.drain()
        if self.lines:
            await asyncio.gather(*(line.drain() for line in self.lines))

    async def rest(self) -> None:
        """Wait until nothing is under way."""
        self._at_rest.clear()
        if self.under_way:
            await self._at_rest.wait()

    def use_keys(self, keys: Keys) -> None:
        """Use new tokens and rights, also for the lines that are open."""
        self.identity.keys = keys
        for line in self.lines:
            principal = self.identity.again(line.principal)
            if principal is None:
                self._start(line.expel())
            else:
                line.principal = principal

    async def _begin(self, app: web.Application) -> None:
        self._start(self._keep_house())

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING)
            self.acts.ledger.sweep()
            now = time.time()
            for line in self.lines:
                if line.principal.expires <= now and not line.ending:
                    self._start(line.expel())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self, app: web.Application) -> None:
        for task in self._tasks:
            task.cancel()
        await self.live.pages.close()
        await self.peers.close()
        await self.examination.close()
        await self.acts.engine.close()
        await self.acts.io.close()
        await self.audit.close()

    # --- what all requests have in common

    @web.middleware
    async def _gate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Identify before a body is read, read it in time, and answer with a problem what fails."""
        if isinstance(request.protocol, Connection):
            request.protocol.begun = True
        self.under_way += 1
        try:
            if request.can_read_body:
                self.identify(request)
                await self._read(request)
            response = await handler(request)
        except web.HTTPRequestEntityTooLarge:
            most = self.settings.max_message
            detail = f"a body has {most} bytes at most at this service (`max_message`)"
            response = await self._failed(
                request, Refused("too-large", detail, limit="max_message")
            )
        except Exception as error:
            response = await self._failed(request, error)
        finally:
            self.under_way -= 1
            if not self.under_way:
                self._at_rest.set()
        if self.draining and not response.prepared:
            response.force_close()
        return response

    async def _read(self, request: web.Request) -> None:
        """Read the body. `request.read()` then has it at once."""
        if request.content.is_eof():  # it came together with the headers
            await request.read()
            return
        seconds = self.settings.body_timeout
        try:
            async with asyncio.timeout(seconds):
                await request.read()
        except TimeoutError:
            detail = f"the body took more than {seconds:g} seconds (`body_timeout`)"
            raise Refused("too-slow", detail, limit="body_timeout") from None

    async def _failed(self, request: web.Request, error: Exception) -> web.Response:
        if isinstance(error, Refused):
            address = client_of(request.transport and request.transport.get_extra_info("peername"))
            principal = request.get(_PRINCIPAL) or Principal("", address=address)
            self.acts.ledger.refused(principal, error)
            if error.kind == "unauthorized":
                await asyncio.sleep(self.identity.failures.delay(address))
        response = failure_of(error)
        if response.status in (408, 413):
            response.force_close()
        return response

    # --- the routes

    async def _line(self, request: web.Request) -> web.WebSocketResponse:
        principal = self.identify(request)
        if self.draining:
            raise Refused("draining", "ask another replica", retry_after=1.0)
        socket = web.WebSocketResponse(
            protocols=[SUBPROTOCOL],
            timeout=GOODBYE,
            max_msg_size=self.settings.max_message,
            compress=False,
        )
        await socket.prepare(request)
        assert isinstance(request.protocol, Connection)
        counters, pipeline = self.watch.counters, self.settings.pipeline
        line = Line(socket, request.protocol, self.acts, principal, counters, pipeline)
        self.lines.add(line)
        try:
            await line.serve(self.hello())
        except msgspec.DecodeError:
            await socket.close(code=1007, message=b"malformed")
        finally:
            self.lines.discard(line)
        return socket

    async def _act(self, request: web.Request) -> web.Response:
        """An act as a request of its own. Its operation is the last word of the path."""
        principal = self.identify(request)
        body = await request.read()
        fields = msgspec.json.decode(body, type=dict[str, object])
        act = msgspec.convert({**fields, "op": request.path.rpartition("/")[2]}, AnyAct)
        found = await self.acts.perform(act, principal)
        if isinstance(act, Enter) and not act.if_free:
            for ticket, standing in zip(act.tickets, found.standings or (), strict=False):
                if standing is not None and standing.place is Place.WAITING:
                    # Nobody waits for it here before the next request, which may go elsewhere.
                    self.acts.engine.unpark(self.acts.ticket(ticket, principal))
        return answer(found)

    async def _info(self, request: web.Request) -> web.Response:
        self.identify(request)
        return answer(self.hello())
