"""Wake-ups by KILL QUERY.

MySQL has no NOTIFY. Instead, one connection of each client sleeps in the server, and holds a GET_LOCK that is
named after the client's channel. When a ticket is admitted, IS_USED_LOCK finds the connection behind the
ticket's channel, and KILL QUERY ends its sleep. To sleep is to wait for another GET_LOCK, the *latch*, which
another connection of the same client holds.
"""

from __future__ import annotations

import os
from typing import ClassVar

from fencelock.core.backoff import Backoff
from fencelock.core.ticket import Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.mysql.errors import ERRORS, KILLED
from fencelock.engines.mysql.requests import RowRequests, get_lock
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.wire import Wire
from fencelock.engines.sql import listener
from fencelock.engines.sql.database import client_closed
from fencelock.engines.sql.requests import lines_of
from fencelock.io.contract import IO, Event

_ANSWER_TIMEOUT = 5.0
"""Seconds in which the server must answer after a sleep."""


class Listener(listener.Listener[Wire]):
    """Sleeps in the server for all waiting tickets."""

    INTERRUPTED_BY_SLEEPERS = True

    SLEEPS: ClassVar = (0.05, 1.0)
    """Seconds of the first sleep in the server, and of the longest: a lost wake-up costs as much.

    A wake-up is sometimes lost if it comes just when a sleep begins. So the first sleep is short.
    """

    def __init__(self, server: Server, requests: RowRequests, ask: listener.Ask, io: IO) -> None:
        super().__init__(ask, io)
        self._server = server
        self._requests = requests
        self._latch = f"fencelock.{os.urandom(8).hex()}"

    async def _connect(self, deadline: float) -> Wire:
        wire = await self._server.connect(deadline - self._io.now())
        try:
            # A new channel for each connection: the server may still keep the old connection.
            channel = os.urandom(8).hex()
            await wire.call(get_lock(f"fencelock.{channel}"), deadline - self._io.now())
        except BaseException:
            wire.close()
            raise
        wire.interruptible = True
        self.channel = channel
        return wire

    async def _listen(self, wire: Wire | None, interrupted: Event) -> None:
        assert wire is not None
        pace = _Pace(*self.SLEEPS, self._io)
        while True:
            interrupted.clear()
            tickets = self._sleepers()
            if tickets:
                began = self._io.now()
                try:
                    await self._sleep_in_server(wire, tickets, pace)
                except RequestFailed:
                    if self._io.now() - began < _ANSWER_TIMEOUT:
                        raise
                    # The server was silent, or this process was stopped for a while and the answer is
                    # there. No error: each waiter looks again, and learns from that what is wrong.
                    self._fail(None)
                    return
            elif not await interrupted.wait(self.IDLE_TIMEOUT) and self._retire():
                return
            if self._closed:
                raise client_closed()

    async def _sleep_in_server(self, wire: Wire, tickets: list[Ticket], pace: _Pace) -> None:
        """Sleep until a wake-up comes, or until it is time to look again. Delivers what it finds."""
        seconds = pace.seconds
        request = self._requests.listen(tickets, self._latch, seconds)
        began = self._io.now()
        try:
            answers = await wire.call(request, seconds + _ANSWER_TIMEOUT)
        except RequestFailed as error:
            if error.code in ERRORS.missing:
                await self._server.install(wire, _ANSWER_TIMEOUT)
            elif error.code != str(KILLED):
                raise
            answers = []
        if answers == [""]:
            # No connection holds the latch: at first, and after the one that held it was lost.
            await self._ask(get_lock(self._latch), _ANSWER_TIMEOUT)
            return
        lines = lines_of(answers)
        pace.learn(found=bool(lines), early=self._io.now() - began < seconds * 0.95)
        for line in lines:
            self._deliver(line)


class _Pace:
    """How long to sleep in the server: longer each time, but briefly if wake-ups don't reach us.

    They don't if the client that admits our ticket logs in as another user, who may not end our
    statements, or is connected to another server of the same cluster.
    """

    def __init__(self, first: float, longest: float, io: IO) -> None:
        self._sleeps = Backoff(first, longest, io.random)
        self._polls = Backoff(0.02, 0.25, io.random)
        self._slept = False
        """Whether the last sleep lasted to its end."""
        self._unreachable = False
        self.seconds = self._sleeps.next()

    def learn(self, *, found: bool, early: bool) -> None:
        """Take in the result of a sleep: whether it found admitted tickets, and whether it ended early."""
        if found:
            # The admission was there when we looked. If we had slept until then, no wake-up had come.
            self._unreachable = self._unreachable or self._slept
        elif early:
            self._unreachable = False
        self._slept = not found and not early
        if not self._slept:
            self._sleeps.reset()
            self._polls.reset()
        self.seconds = (self._polls if self._unreachable else self._sleeps).next()
