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
from fencelock.service.live.rows import contender, row_of
from fencelock.service.live.stream import Pages
from fencelock.service.live.wire import Detail, Figures, Local, Resume, Since, Visible
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
        limits = self._service.acts.limits
        limits.admit_look(call.principal)
        call.principal.require("read", name := limits.check_name(call.name))
        row, waiters, trouble = self.pages.board.row(name), [], ""
        if not form.local:
            try:
                at, seen = await self.pages.poller.details(name)
            except EngineError as error:
                trouble = str(error)
            else:
                row = row_of(seen, at, row)
                waiters = [contender(each, at) for each in seen.waiters]
        history = self._service.watch.history
        found = Detail(
            time.time(),
            row,
            tuple(waiters),
            call.principal.may("break", name),
            trouble,
            self.pages.circles.readable(call.principal, name),
            history.of(name),
            [],
            history.forgotten_before(name),
        )
        return answer(found)

    async def figures(self, call: Call, form: Since) -> web.Response:
        self._service.acts.limits.admit_look(call.principal)
        if not call.principal.rights.get("read"):
            raise Refused("forbidden", f"{call.principal.name} may not read any lock")
        watch = self._service.watch
        own = replace(watch.figures.since(form.since), health=await watch.health())
        return answer(Figures(time.time(), EVERY, [own]))
