"""A replica of the service: its routes, its start and its end."""

from __future__ import annotations

import asyncio
import secrets

import msgspec
from aiohttp import web

from fencelock.core.errors import Unsupported
from fencelock.core.version import __version__
from fencelock.engines.http.wire import (
    MAX_MESSAGE,
    PATH,
    SUBPROTOCOL,
    AnyAct,
    Hello,
    WireTraits,
    encode,
)
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.service.acts import Acts
from fencelock.service.line import Line
from fencelock.service.principals import EVERYBODY, Principal
from fencelock.service.problems import Refused, problem_of
from fencelock.service.watching import Watch, WatchSettings, counting, routes

_ACTS = (*("enter", "renew", "leave", "park", "evict", "remember", "recall", "inspect", "names"),)

_decode_act = msgspec.json.Decoder(AnyAct).decode


GOODBYE = 0.5
"""Seconds that a client has to answer a close. Nobody reads an idle line of a blocking client."""


class Service:
    """One replica. `app` is its aiohttp application."""

    def __init__(self, url: str, watching: WatchSettings | None = None) -> None:
        io = AsyncioIO()
        engine = open_engine(url, io)
        if not engine.traits.leases_expire:
            raise Unsupported(
                "a service needs an engine whose leases expire: a session lock lives on one connection, and "
                "the connections here belong to the service, not to the holder"
            )
        if not engine.traits.cross_process and engine.label != "memory":
            raise Unsupported("a service needs an engine that other processes can reach")
        self.draining = False
        self.replica = secrets.token_hex(8)
        self.lines: set[Line] = set()
        self.watch = Watch(self, engine, io, watching or WatchSettings())
        self.acts = Acts(self.watch.engine, io)
        self.app = web.Application(
            client_max_size=MAX_MESSAGE,
            middlewares=[counting(self.watch.counters), _problems],
        )
        self.app.cleanup_ctx.append(self.watch.sweeping)
        self.app.add_routes(routes(self))
        self.app.router.add_get(PATH, self._line)
        self.app.router.add_get("/v1/info", self._info)
        for operation in _ACTS:
            self.app.router.add_post(f"/v1/{operation}", self._act)
        self.app.on_cleanup.append(self._close)

    def identify(self, request: web.Request) -> Principal:
        """Who asks."""
        return EVERYBODY

    def hello(self) -> Hello:
        """What a client learns first."""
        engine = self.acts.engine
        return Hello(__version__, engine.label, WireTraits.pack(engine.traits), self.replica)

    async def drain(self) -> None:
        """Let everything that is under way end, and send the clients elsewhere."""
        self.draining = True
        self.watch.hub.drain()
        if self.lines:
            await asyncio.gather(*(line.drain() for line in self.lines))

    async def _line(self, request: web.Request) -> web.WebSocketResponse:
        principal = self.identify(request)
        if self.draining:
            raise Refused("draining", "ask another replica", retry_after=0.0)
        socket = web.WebSocketResponse(
            protocols=[SUBPROTOCOL], timeout=GOODBYE, max_msg_size=MAX_MESSAGE, compress=False
        )
        await socket.prepare(request)
        line = Line(socket, self.acts, principal, self.watch.counters)
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
        return _json(await self.acts.perform(act, principal))

    async def _info(self, request: web.Request) -> web.Response:
        self.identify(request)
        return _json(self.hello())

    async def _close(self, app: web.Application) -> None:
        await self.acts.engine.close()
        await self.acts.io.close()


@web.middleware
async def _problems(request: web.Request, handler: web.Handler) -> web.StreamResponse:  # type: ignore[name-defined]
    """Answer with a problem where a handler fails."""
    try:
        response: web.StreamResponse = await handler(request)
        return response
    except web.HTTPException:
        raise
    except Exception as error:
        found = problem_of(error)
        return _json(found, found.status)


def _json(body: msgspec.Struct, status: int = 200) -> web.Response:
    kind = "application/json" if status < 400 else "application/problem+json"
    return web.Response(body=encode(body), status=status, content_type=kind)
