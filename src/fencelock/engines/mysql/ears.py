"""Wake-ups by KILL QUERY.

MySQL has no NOTIFY. But a statement that sleeps can be ended by KILL QUERY, and IS_USED_LOCK tells
which connection has a GET_LOCK: so whoever admits a ticket ends the sleep of that ticket's client.
It sleeps by waiting for another GET_LOCK, the latch, that one of the client's other connections has.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import ClassVar

from fencelock.core.backoff import Backoff
from fencelock.core.ticket import Ticket
from fencelock.engines.mysql.calls import RowCalls, get_lock
from fencelock.engines.mysql.server import Server
from fencelock.engines.mysql.troubles import KILLED, TROUBLES
from fencelock.engines.mysql.wire import Wire
from fencelock.engines.sql import ears
from fencelock.engines.sql.answers import lines_of
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.io.contract import IO, Event

_PATIENCE = 5.0
"""Seconds beyond its sleep in which the server must answer."""

Ask = Callable[[str, float], Awaitable[list[str]]]
"""Sends a request over any connection of the client, within so many seconds."""


class Ears(ears.Ears[Wire]):
    """Lets the server sleep for all who wait."""

    ROUSED = True

    SLEEPS: ClassVar = (0.05, 1.0)
    """Seconds that the server sleeps for us at first, and at most: how long a wake-up may be lost.

    One is lost now and then, if it comes just when a sleep is to begin: hence the short first one.
    """

    def __init__(self, server: Server, calls: RowCalls, ask: Ask, io: IO) -> None:
        super().__init__(io)
        self._server = server
        self._calls = calls
        self._ask = ask
        self._latch = f"fencelock.{os.urandom(8).hex()}"

    async def _opened(self, deadline: float) -> Wire:
        wire = await self._server.connect(deadline - self._io.now())
        try:
            # Another one for each connection, as the old one may linger in the server.
            channel = os.urandom(8).hex()
            await wire.call(get_lock(f"fencelock.{channel}"), deadline - self._io.now())
        except BaseException:
            wire.close()
            raise
        wire.interruptible = True
        self.channel = channel
        return wire

    async def _listen(self, wire: Wire | None, alarm: Event) -> None:
        assert wire is not None
        pace = _Pace(*self.SLEEPS, self._io)
        while True:
            alarm.clear()
            waiting = self._waiting()
            if waiting:
                began = self._io.now()
                try:
                    await self._sleep(wire, waiting, pace)
                except DatabaseFailed:
                    if self._io.now() - began < _PATIENCE:
                        raise
                    # Silence. But it may be us who was stopped, and the answer is there: whoever waits
                    # asks, and hears from that what is the matter.
                    self._lose(None)
                    return
            elif not await alarm.wait(self.IDLE) and self._retire():
                return
            if self._closed:
                raise DatabaseFailed("the client was closed", "not applied")

    async def _sleep(self, wire: Wire, waiting: list[Ticket], pace: _Pace) -> None:
        """Let the server sleep for us until there is news, or until it is time to look by ourselves."""
        seconds = pace.seconds
        request = self._calls.listen(waiting, self._latch, seconds)
        began = self._io.now()
        try:
            answers = await wire.call(request, seconds + _PATIENCE)
        except DatabaseFailed as error:
            if error.code in TROUBLES.not_there:
                await self._server.install(wire, _PATIENCE)
            elif error.code != str(KILLED):
                raise
            answers = []
        if answers == [""]:
            # Nobody has the latch: at first, and when the connection that had it is gone. Any will do.
            await self._ask(get_lock(self._latch), _PATIENCE)
            return
        news = lines_of(answers)
        pace.learn(news=bool(news), early=self._io.now() - began < seconds * 0.95)
        for line in news:
            self._deliver(line)


class _Pace:
    """How long to let the server sleep: longer each time, unless the bell turns out not to reach us.

    It does not if another user's client admits us, who may not end our statements, or one that is
    connected to another server of the same cluster.
    """

    def __init__(self, first: float, most: float, io: IO) -> None:
        self._trusting = Backoff(first, most, io.random)
        self._looking = Backoff(0.02, 0.25, io.random)
        self._slept = False
        self._deaf = False
        self.seconds = self._trusting.next()

    def learn(self, *, news: bool, early: bool) -> None:
        """What came of the last sleep."""
        if news:
            # It was there when we looked. If we had slept until then, nobody had rung.
            self._deaf = self._deaf or self._slept
        elif early:
            self._deaf = False
        self._slept = not news and not early
        if not self._slept:
            self._trusting.reset()
            self._looking.reset()
        self.seconds = (self._looking if self._deaf else self._trusting).next()
