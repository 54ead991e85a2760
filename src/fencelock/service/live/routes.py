"""What the page asks for: the stream, one name, and the figures of the last hour."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec.structs import replace

from fencelock.core.errors import EngineError
from fencelock.service.answers import answer
from fencelock.service.live import static
from fencelock.service.live.figures import EVERY
from fencelock.service.live.peers import merged
from fencelock.service.live.rows import contender, row_of
from fencelock.service.live.stream import Pages
from fencelock.service.live.wire import (
    Contender,
    Detail,
    Figures,
    Local,
    Replica,
    Resume,
    Row,
    Since,
    Visible,
)
from fencelock.service.operations import Call, Operation
from fencelock.service.problems import Refused
from fencelock.service.watching import LIVE

if TYPE_CHECKING:
    from fencelock.service.app import Service


class Live:
    """The live page of one replica."""

    def __init__(self, service: Service) -> None:
        self.pages = Pages(service, service.watch.history.usual)
        self._service = service

    def operations(self) -> list[Operation]:
        """Everything that the page asks for."""
        return [
            Operation("GET", LIVE, "The board, as it changes", Resume, {200: "text/event-stream"}),
            Operation(
                "POST",
                f"{LIVE}/visible",
                "What a page shows at the moment: it is looked at first",
                Visible,
                {204: None},
                self.show,
                ("not-json",),
            ),
            Operation(
                "GET",
                LIVE + "/names/{name}",
                "The queue of a lock, and what happened to it",
                Local,
                {200: Detail},
                self.detail,
            ),
            Operation(
                "GET",
                f"{LIVE}/figures",
                "The last hour in numbers",
                Since,
                {200: Figures},
                self.figures,
            ),
        ]

    def routes(self) -> list[web.RouteDef]:
        """The routes of the page."""
        made = [each.route(self._service) for each in self.operations() if each.act is not None]
        page = static.routes() if self._service.settings.page else ()
        return [*made, web.get(LIVE, self._stream), *page]

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        principal = self._service.identify(request)
        if self._service.draining:
            raise Refused("draining", "ask another replica", retry_after=1.0)
        return await self.pages.stream(request, principal)

    async def show(self, call: Call, form: Visible) -> web.Response:
        self._service.acts.limits.admit_look(call.principal)
        if not self.pages.show(form, call.principal):
            raise Refused("not-found", "this replica does not know the stream: another one may")
        return web.Response(status=204)

    async def detail(self, call: Call, form: Local) -> web.Response:
        limits, history = self._service.acts.limits, self._service.watch.history
        limits.admit_look(call.principal)
        call.principal.require("read", name := limits.check_name(call.name))
        own = Replica(self._service.replica, None, True, since=history.since(name))
        known = [(own, history.of(name))]
        if form.local:  # another replica asks for what it can't know
            return answer(Detail(time.time(), Row(name), history=known[0][1], replicas=[own]))
        authorization = call.request.headers.get("Authorization")
        row, waiters, trouble = await self._look(name)
        known += await self._service.peers.histories(name, authorization)
        found = Detail(
            time.time(),
            row,
            waiters,
            call.principal.may("break", name),
            trouble,
            self.pages.circles.readable(call.principal, name),
            merged(entries for _, entries in known),
            [replica for replica, _ in known],
        )
        return answer(found)

    async def _look(self, name: str) -> tuple[Row, tuple[Contender, ...], str]:
        """The row of a name, its waiters, and why the engine could not be asked."""
        row = self.pages.board.row(name)
        try:
            at, seen = await self.pages.poller.details(name)
        except EngineError as error:
            return row, (), str(error)
        return row_of(seen, at, row), tuple(contender(each, at) for each in seen.waiters), ""

    async def figures(self, call: Call, form: Since) -> web.Response:
        self._service.acts.limits.admit_look(call.principal)
        if not call.principal.rights.get("read"):
            raise Refused("forbidden", f"{call.principal.name} may not read any lock")
        watch = self._service.watch
        found = [replace(watch.figures.since(form.since), health=await watch.health())]
        if not form.local:
            authorization = call.request.headers.get("Authorization")
            found += await self._service.peers.figures(form.since, authorization)
        return answer(Figures(time.time(), EVERY, found))
