"""A replica of the service: its routes, its start and its end."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
from aiohttp import web

from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Place
from fencelock.core.version import __version__
from fencelock.engines.http.wire import (
    PATH,
    SUBPROTOCOL,
    AnyAct,
    Enter,
    Hello,
    WireTraits,
    encode,
)
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.service.acts import Acts
from fencelock.service.addresses import client_of
from fencelock.service.audit import Audit
from fencelock.service.connections import Connection
from fencelock.service.identity import Identity
from fencelock.service.ledger import Ledger
from fencelock.service.limits import BURST, Limits
from fencelock.service.line import Line
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused, problem_of
from fencelock.service.settings import Settings
from fencelock.service.tokens import Keys

_ACTS = (*("enter", "renew", "leave", "park", "evict", "remember", "recall", "inspect", "names"),)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HOUSEKEEPING = 1.0
"""Seconds between two looks for what has expired."""


class Service:
    """One replica. `app` is its aiohttp application. Without `keys`, everybody may do everything."""

    def __init__(self, settings: Settings, keys: Keys | None = None) -> None:
        self.settings = settings
        io = AsyncioIO()
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
        ledger = Ledger(self.audit, BURST * settings.rate)
        self.acts = Acts(engine, io, Limits(settings, ledger), ledger)
        self.draining = False
        self.under_way = 0
        """Requests that are not answered yet, and lines that are open."""
        self._at_rest = asyncio.Event()
        self._replica = secrets.token_hex(8)
        self._lines: set[Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.app = web.Application(client_max_size=settings.max_message, middlewares=[self._gate])
        self.app.router.add_get(PATH, self._line)
        self.app.router.add_get("/v1/info", self._info)
        self.app.router.add_get("/livez", self._live)
        self.app.router.add_get("/readyz", self._ready)
        for operation in _ACTS:
            self.app.router.add_post(f"/v1/{operation}", self._act)
        self.app.on_startup.append(self._begin)
        self.app.on_cleanup.append(self._close)

    def identify(self, request: web.Request) -> Principal:
        """Who asks. Raises `Refused`."""
        known: Principal | None = request.get("principal")
        if known is None:
            known = request["principal"] = self.identity.identify(request)
        return known

    def hello(self) -> Hello:
        """What a client learns first."""
        engine = self.acts.engine
        return Hello(__version__, engine.label, WireTraits.pack(engine.traits), self._replica)

    # --- the end, and new tokens

    async def drain(self) -> None:
        """End all waits, send the clients with lines elsewhere, and let what is under way end."""
        self.draining = True
        self.acts.drain()
        if self._lines:
            await asyncio.gather(*(line.drain() for line in self._lines))

    async def rest(self) -> None:
        """Wait until nothing is under way."""
        self._at_rest.clear()
        if self.under_way:
            await self._at_rest.wait()

    def use_keys(self, keys: Keys) -> None:
        """Use new tokens and rights, also for the lines that are open."""
        self.identity.keys = keys
        for line in self._lines:
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
            for line in self._lines:
                if line.principal.expires <= now and not line.ending:
                    self._start(line.expel())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close(self, app: web.Application) -> None:
        for task in self._tasks:
            task.cancel()
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
            response = await self._failed(request, Refused("too-large", detail))
        except web.HTTPException:
            raise
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
            raise Refused("too-slow", detail) from None

    async def _failed(self, request: web.Request, error: Exception) -> web.Response:
        if isinstance(error, Refused) and not error.audited:
            address = client_of(request.transport and request.transport.get_extra_info("peername"))
            principal = request.get("principal") or Principal("", address=address)
            self.audit.refused(principal, error.kind, error.name)
            if error.kind == "unauthorized":
                await asyncio.sleep(self.identity.failures.delay(address))
        found = problem_of(error)
        response = answer(found, found.status)
        if found.retry_after is not None:
            response.headers["Retry-After"] = str(max(1, math.ceil(found.retry_after)))
        if found.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if found.status in (408, 413):
            response.force_close()
        return response

    # --- the routes

    async def _line(self, request: web.Request) -> web.WebSocketResponse:
        principal = self.identify(request)
        if self.draining:
            raise Refused("draining", "ask another replica", retry_after=1.0)
        socket = web.WebSocketResponse(
            protocols=[SUBPROTOCOL],
            heartbeat=15.0,
            timeout=5.0,
            max_msg_size=self.settings.max_message,
            compress=False,
        )
        await socket.prepare(request)
        assert isinstance(request.protocol, Connection)
        line = Line(socket, request.protocol, self.acts, principal, self.settings.pipeline)
        self._lines.add(line)
        try:
            await line.serve(self.hello())
        except msgspec.DecodeError:
            await socket.close(code=1007, message=b"malformed")
        finally:
            self._lines.discard(line)
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

    async def _live(self, request: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def _ready(self, request: web.Request) -> web.Response:
        if self.draining:
            return web.Response(text="draining\n", status=503)
        return web.Response(text="ready\n")


def answer(body: msgspec.Struct, status: int = 200) -> web.Response:
    """A body as JSON."""
    kind = "application/json" if status < 400 else "application/problem+json"
    return web.Response(body=encode(body), status=status, content_type=kind)
