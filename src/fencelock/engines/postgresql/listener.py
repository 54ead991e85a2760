"""Wake-ups by NOTIFY.

Behind a pooler in transaction mode LISTEN does not work. Then one request, repeated again and again, asks
for all waiting tickets of the client.
"""

from __future__ import annotations

import logging
import os

from fencelock.core.backoff import Backoff
from fencelock.engines.postgresql.requests import RowRequests
from fencelock.engines.postgresql.server import Server
from fencelock.engines.postgresql.wire import Wire
from fencelock.engines.sql import listener
from fencelock.io.contract import IO, Event

log = logging.getLogger("fencelock.engine")

_TEST_TIMEOUT = 1.0
"""Seconds to wait for a test notification. If none comes, LISTEN does not work on this connection."""

_POLL_TIMEOUT = 1.0
"""Seconds that a request for the admitted tickets may take."""


class Listener(listener.Listener[Wire]):
    """Listens, or polls where LISTEN does not work."""

    def __init__(self, server: Server, requests: RowRequests, ask: listener.Ask, io: IO) -> None:
        super().__init__(ask, io)
        self._server = server
        self._requests = requests
        self._must_poll = False
        self.channel = _new_channel()

    async def _connect(self, deadline: float) -> Wire | None:
        if self._must_poll:
            return None
        wire = await self._server.connect(deadline - self._io.now())
        try:
            if not self._server.pooled or await self._can_listen(wire, deadline):
                await wire.script(f"LISTEN {self.channel}", deadline - self._io.now())
                return wire
        except BaseException:
            wire.close()
            raise
        wire.close()
        self._must_poll, self.channel = True, ""
        log.warning(
            "LISTEN does not work behind a connection pooler in transaction mode: waiting for locks "
            "uses polling, which is slower; connect to the server itself for fast wake-ups"
        )
        return None

    async def _can_listen(self, wire: Wire, deadline: float) -> bool:
        """Whether the connection keeps its session between two requests. LISTEN needs that."""
        channel = _new_channel()
        await wire.script(f"LISTEN {channel}", deadline - self._io.now())
        await self._ask(self._requests.notify(channel, "test"), deadline - self._io.now())
        return bool(await wire.notifications(min(_TEST_TIMEOUT, deadline - self._io.now())))

    async def _listen(self, wire: Wire | None, interrupted: Event) -> None:
        if wire is None:
            await self._poll(interrupted)
            return
        while True:
            for payload in await wire.notifications(self.IDLE_TIMEOUT):
                self._deliver(payload)
            if self._retire():
                return

    async def _poll(self, interrupted: Event) -> None:
        """Ask for all waiting tickets. The pauses grow until a ticket is admitted or a new one waits."""
        backoff = Backoff(0.02, 0.25, self._io.random)
        idle_since = self._io.now()
        known: set[str] = set()
        while not await interrupted.wait(backoff.next()):
            tickets = self._sleepers()
            ids = {ticket.id for ticket in tickets}
            if not ids <= known:
                backoff.reset()
            known = ids
            if tickets:
                idle_since = self._io.now()
                for payload in await self._ask(self._requests.admitted(tickets), _POLL_TIMEOUT):
                    self._deliver(payload)
                    backoff.reset()
            elif self._io.now() - idle_since >= self.IDLE_TIMEOUT and self._retire():
                return


def _new_channel() -> str:
    return "fencelock_" + os.urandom(8).hex()
