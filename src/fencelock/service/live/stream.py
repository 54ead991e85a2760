"""`/v1/live`: what an open page is told, as server-sent events.

A page is told what has changed since it was last told, as fast as it reads: a page that is slow gets fewer
and larger parts. What many pages may read is encoded once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from fencelock.core.version import __version__
from fencelock.engines.http.wire import WireTraits, encode
from fencelock.service.answers import event_stream
from fencelock.service.live.circles import Circles
from fencelock.service.live.poller import Interest, Poller
from fencelock.service.live.rows import Board, Changes, Usual
from fencelock.service.live.touched import Touched
from fencelock.service.live.wire import Draining, Hello, Rows, State, Verdict, Visible
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused

if TYPE_CHECKING:
    from fencelock.service.app import Service

_PACE = 0.5
"""Seconds between two parts for one page, at least."""

_STATE_EVERY = 4.0
"""Seconds after which the state is sent even if it is the same. It shows that the stream is alive."""

_COMPARE_EVERY = 5.0
"""Seconds between two looks at how long the names are usually held."""

_PART = 500
"""Rows in one event."""

_PATIENCE = 1.0
"""Seconds that the first page waits for an examination of the engine."""

_FORGET_AFTER = 60.0
"""Seconds without an open page after which the board is too old to begin with."""


class _Page:
    """One open page."""

    def __init__(self, principal: Principal, version: int) -> None:
        self.id = secrets.token_hex(8)
        self.principal = principal
        self.version = version
        """The version of the board that it was told."""
        self.visible = Visible(self.id, [])
        self.state: State | None = None
        """The state that it was told, and when."""
        self.state_at = 0.0


class Pages:
    """The pages that are open at this replica. While there is one, the poller runs."""

    def __init__(self, service: Service, usual_of: Callable[[str], Usual]) -> None:
        self.board = Board()
        self.circles = Circles(self.board)
        self._touched = Touched(self.board)
        engine = service.watch.plain_engine
        self.poller = Poller(engine, self.board, self._touched, self._interest, self._publish)
        self._service = service
        self._usual_of = usual_of
        self._compared_at = 0.0
        self._pages: dict[str, _Page] = {}
        self._polling: asyncio.Task[None] | None = None
        self._left_at = 0.0
        self._news = asyncio.Event()
        self._encoded: dict[tuple[object, int], list[bytes]] = {}
        """The parts up to the version `_encoded_for`, by who may read what and what it knows already."""
        self._encoded_for = -1

    def show(self, visible: Visible, principal: Principal) -> bool:
        """Note what a page shows. Returns False if this replica does not know the page."""
        page = self._pages.get(visible.stream)
        if page is None or page.principal.name != principal.name:
            return False
        page.visible = visible
        return True

    def drain(self) -> None:
        """Send all pages elsewhere."""
        self._wake()

    async def close(self) -> None:
        """End the poller."""
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.wait([self._polling])

    async def stream(self, request: web.Request, principal: Principal) -> web.StreamResponse:
        """Answer a request with the board, and with all changes from now on."""
        limit = self._service.settings.event_streams
        if len(self._pages) >= limit:
            detail = f"{limit} pages of this replica are open already (`event_streams`)"
            raise Refused("limited", detail, retry_after=15.0, limit="event_streams")
        page = _Page(principal, self._version(request.query.get("since", "")))
        response = event_stream()
        self._open(page)
        try:
            with suppress(ConnectionError):
                await response.prepare(request)
                verdict = await self._service.examination.verdict(_PATIENCE)
                await response.write(_event("hello", self._hello(page, verdict)))
                await self._tell(page, response)
        finally:
            self._leave(page)
        return response

    def _open(self, page: _Page) -> None:
        if not self._pages:
            if time.monotonic() > self._left_at + _FORGET_AFTER:
                self.board.clear()
            self._service.watch.audience.join(self._touched)
            self._polling = asyncio.create_task(self.poller.run())
        self._pages[page.id] = page

    def _leave(self, page: _Page) -> None:
        del self._pages[page.id]
        if not self._pages:
            self._left_at = time.monotonic()
            self._service.watch.audience.quit(self._touched)
            self._touched.clear()
            if self._polling is not None:
                self._polling.cancel()

    # --- what the poller asks and tells

    def _interest(self) -> Interest:
        shown = [page.visible for page in self._pages.values()]
        opened = {each.opened for each in shown if each.opened is not None}
        visible = {name for each in shown for name in each.names}
        return Interest(opened | set(self.circles.suspected), visible)

    def _publish(self) -> None:
        """The poller has had a turn."""
        self.circles.update(time.time())
        if time.monotonic() > self._compared_at + _COMPARE_EVERY:
            self._compared_at = time.monotonic()
            self.board.compare(self._usual_of)
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # --- what a page is told

    async def _tell(self, page: _Page, response: web.StreamResponse) -> None:
        """Tell a page what is new, until its principal may not read any more or this replica drains."""
        service = self._service
        while not service.draining:
            began, news = time.monotonic(), self._news
            for part in self._parts(page):
                await response.write(part)
            state = self._state(page.principal)
            if began > page.state_at + _STATE_EVERY or _differ(state, page.state):
                await response.write(_event("state", state))
                page.state, page.state_at = state, began
                again = service.identity.again(page.principal)
                if again is None:
                    return
                page.principal = again
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _STATE_EVERY)
            await asyncio.sleep(max(0.0, began + _PACE - time.monotonic()))
        await response.write(_event("draining", Draining()))

    def _hello(self, page: _Page, verdict: Verdict | None) -> Hello:
        service, principal = self._service, page.principal
        engine, rights = (
            service.acts.engine,
            {str(key): each for key, each in principal.rights.items()},
        )
        return Hello(
            service.replica,
            __version__,
            time.time(),
            page.id,
            engine.label,
            WireTraits.pack(engine.traits),
            principal.name,
            rights,
            service.identity.keys is not None,
            verdict,
        )

    def _state(self, principal: Principal) -> State:
        poller, everything = self.poller, "*" in principal.rights.get("read", ())
        return State(
            time.time(),
            self.board.left_out if everything else 0,
            poller.listed_at,
            len(self.board.unlooked) if everything else 0,
            poller.list_took,
            poller.trouble,
            self._service.draining,
            self.circles.readable(principal),
            round(poller.load, 5),
        )

    def _parts(self, page: _Page) -> Sequence[bytes]:
        """What has changed since the page was last told. From now on it knows that."""
        version = self.board.version
        if page.version == version:
            return ()
        if self._encoded_for != version:
            self._encoded_for, self._encoded = version, {}
        key = page.principal.rights.get("read", ()), page.version
        if key not in self._encoded:
            changes = self.board.since(page.version)
            parts = self._split(changes, page.principal, f"{self._service.replica}-{version}")
            self._encoded[key] = [_event("rows", part) for part in parts]
        page.version = version
        return self._encoded[key]

    def _split(self, changes: Changes, principal: Principal, cursor: str) -> Iterator[Rows]:
        rows = [row for row in changes.rows if principal.may("read", row.name)]
        gone = [name for name in changes.gone if principal.may("read", name)]
        for start in range(0, max(1, len(rows)), _PART):
            first, more = start == 0, start + _PART < len(rows)
            yield Rows(
                time.time(),
                cursor,
                changes.reset and first,
                more,
                tuple(rows[start : start + _PART]),
                tuple(gone) if first else (),
            )

    def _version(self, cursor: str) -> int:
        """The version that a page knows already. -1: it must begin from nothing."""
        replica, _, version = cursor.rpartition("-")
        if replica != self._service.replica or not (version.isascii() and version.isdigit()):
            return -1
        return int(version[:18])


def _differ(state: State, told: State | None) -> bool:
    """Whether something has happened since a page was told the state. Time passes always."""
    if told is None:
        return True
    passing = ("time", "listed_at", "unlooked", "list_took", "load")
    return replace(told, **{each: getattr(state, each) for each in passing}) != state


def _event(word: str, data: Struct) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (word.encode(), encode(data))
