"""Wake-ups: one connection per client sleeps for all of its tickets that wait.

MySQL has no NOTIFY. But a statement that sleeps can be ended by KILL QUERY, and IS_USED_LOCK tells
which connection has a GET_LOCK: so whoever admits a ticket ends the sleep of that ticket's client. It is
opened when somebody has to wait, and closed when nobody has waited for a while.
"""

from __future__ import annotations

import os
import threading

from holdfast.core.backoff import Backoff
from holdfast.core.ticket import Ticket
from holdfast.engines.mysql.schema import Calls, binary, text_of
from holdfast.engines.mysql.server import Server
from holdfast.engines.mysql.troubles import KILLED, NOT_THERE
from holdfast.engines.mysql.wire import Wire
from holdfast.engines.sql.broken import Broken
from holdfast.io.contract import IO, Event, Task

_IDLE = 10.0
"""Seconds without a waiter after which nobody listens any more."""

_SLEEP = 1.0
"""Seconds that the server sleeps for us at most: how long a wake-up may be lost."""

_PATIENCE = 5.0
"""Seconds beyond its sleep in which the server must answer."""


class _Ear:
    """One ticket that waits, and what was heard for it."""

    __slots__ = ("broken", "event", "news", "ticket", "told")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.event: Event | None = None
        self.news: str | None = None
        self.told = False
        """There is news that it has not acted upon yet: no need to ask for more."""
        self.broken: Broken | None = None


class Ears:
    """Where the wake-ups of one client arrive."""

    def __init__(self, server: Server, calls: Calls, io: IO) -> None:
        self._server = server
        self._calls = calls
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ears: dict[str, _Ear] = {}
        self._wire: Wire | None = None
        self._task: Task | None = None
        self._starting: Event | None = None
        self._alarm: Event | None = None
        self._open = False
        self._closed = False
        self.channel = ""
        """Where to ring; another one for each connection, as the old one may linger in the server."""

    def expect(self, ticket: Ticket) -> bool:
        """Collect the wake-ups for a ticket from now on; False if nobody listens yet."""
        with self._mutex:
            if self._open:
                ear = self._ears.setdefault(ticket.id, _Ear(ticket))
                ear.told = False
                if self._alarm is not None:
                    self._alarm.set()
            return self._open

    def ignore(self, id: str) -> None:
        """Collect them no more; one who still waits for them stops."""
        with self._mutex:
            ear = self._ears.pop(id, None)
        if ear is not None and ear.event is not None:
            ear.event.set()

    async def hear(self, id: str, timeout: float) -> str | None:
        """Sleep until a wake-up for a ticket arrives."""
        with self._mutex:
            ear = self._ears.get(id)
            if ear is None:  # dismissed
                return None
            if ear.event is None:
                ear.event = self._io.event()
                if ear.told:
                    ear.event.set()
        await ear.event.wait(timeout)
        with self._mutex:
            ear.event.clear()
            news, ear.news = ear.news, None
        if news is None and ear.broken is not None:
            raise Broken(str(ear.broken), "not applied", ear.broken.code)
        return news

    async def start(self, timeout: float) -> None:
        """Listen from now on. Many may ask at once: one of them does it, the others wait for that."""
        deadline = self._io.now() + timeout
        while not self._open:
            with self._mutex:
                if self._closed:
                    raise Broken("the client was closed", "not applied")
                ours = self._starting is None
                started = self._starting = self._starting or self._io.event()
            if not ours:
                if not await started.wait(deadline - self._io.now()):
                    raise Broken("no answer while connecting to listen", "not applied")
                continue
            try:
                await self._start(deadline)
            finally:
                with self._mutex:
                    self._starting = None
                started.set()

    async def close(self) -> None:
        """Stop listening; those who still wait look again."""
        with self._mutex:
            self._closed = True
            task = self._task
            ids = list(self._ears)
            if self._wire is not None:
                self._wire.hang_up()
            if self._alarm is not None:
                self._alarm.set()
        for id in ids:
            self.ignore(id)
        if task is not None:
            await task.join()

    async def _start(self, deadline: float) -> None:
        wire = await self._server.connect(deadline - self._io.now())
        try:
            channel = os.urandom(8).hex()
            lock = f"DO GET_LOCK({binary('holdfast.' + channel)}, 0)"
            await wire.call(lock, deadline - self._io.now())
            wire.interruptible = True
            with self._mutex:
                if self._closed:
                    raise Broken("the client was closed", "not applied")
                self._wire, self._open, self.channel = wire, True, channel
                self._alarm = self._io.event()
                self._task = self._io.spawn(self._listen(wire, self._alarm), "holdfast-listener")
        except BaseException:
            wire.close()
            raise

    async def _listen(self, wire: Wire, alarm: Event) -> None:
        pace = _Pace(self._io)
        try:
            while True:
                alarm.clear()
                waiting = self._waiting()
                if waiting:
                    await self._sleep(wire, waiting, pace)
                elif not await alarm.wait(_IDLE) and self._retire():
                    return
                if self._closed:
                    raise Broken("the client was closed", "not applied")
        except Broken as error:
            self._lose(error)
        finally:
            wire.close()

    async def _sleep(self, wire: Wire, waiting: dict[str, list[str]], pace: _Pace) -> None:
        """Let the server sleep for us until there is news, or until it is time to look by ourselves."""
        seconds = pace.seconds
        began = self._io.now()
        try:
            answer = await wire.call(self._calls.listen(waiting, seconds), seconds + _PATIENCE)
        except Broken as error:
            if error.code in NOT_THERE:
                await self._server.install(wire, _PATIENCE)
            elif error.code != str(KILLED):
                raise
            answer = []
        news = [line for text in text_of(answer) for line in text.splitlines()]
        pace.learn(news=bool(news), early=self._io.now() - began < seconds * 0.95)
        for line in news:
            self._deliver(line)

    def _waiting(self) -> dict[str, list[str]]:
        waiting: dict[str, list[str]] = {}
        with self._mutex:
            for id, ear in self._ears.items():
                if not ear.told:
                    waiting.setdefault(ear.ticket.name, []).append(id)
        return waiting

    def _retire(self) -> bool:
        """Stop if nobody waits."""
        with self._mutex:
            if self._ears and not self._closed:
                return False
            self._forget()
            return True

    def _lose(self, error: Broken) -> None:
        """Nothing will be heard any more: tell everyone who waits."""
        with self._mutex:
            self._forget()
            ears = list(self._ears.values())
            self._ears.clear()
        for ear in ears:
            ear.broken = error
            if ear.event is not None:
                ear.event.set()

    def _forget(self) -> None:
        self._open, self._wire, self._task, self._alarm = False, None, None, None

    def _deliver(self, line: str) -> None:
        id, _, news = line.partition(" ")
        with self._mutex:
            ear = self._ears.get(id)
            if ear is not None:
                ear.told, ear.news = True, news or None
        if ear is not None and ear.event is not None:
            ear.event.set()


class _Pace:
    """How long to let the server sleep: long, unless the bell turns out not to reach us.

    It does not if another user's client admits us, who may not end our statements, or one that is
    connected to another server of the same cluster.
    """

    def __init__(self, io: IO) -> None:
        self._backoff = Backoff(0.02, 0.25, io.random)
        self._slept = False
        self._deaf = False
        self.seconds = _SLEEP

    def learn(self, *, news: bool, early: bool) -> None:
        """What came of the last sleep."""
        if news:
            # It was there when we looked. If we had slept until then, nobody had rung.
            self._deaf = self._deaf or self._slept
            self._backoff.reset()
        elif early:
            self._deaf = False
        self._slept = not news and not early
        self.seconds = self._backoff.next() if self._deaf else _SLEEP
