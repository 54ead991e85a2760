"""Waiting for a wake-up: in a thread, or in a task."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from itertools import count

from fencelock.core.ticket import ADMITTED, Standing
from fencelock.engines.sqlite.pipes import ABANDONED, LOOK, Message, Pipe, Pipes
from fencelock.io.contract import IO, Event

_IDLE_PIPES = 32
"""Pipes that a client keeps for the next threads that wait."""


class Waits(ABC):
    """The tickets that wait through one client. Each has a number, which messages for it carry."""

    @abstractmethod
    def listen(self, id: str) -> str:
        """Where to wake a ticket that is about to wait. Called inside the transaction."""

    @abstractmethod
    async def park(self, id: str, until: float) -> Standing | None:
        """Sleep until a message comes or a moment has come."""

    @abstractmethod
    def drop(self, id: str) -> None:
        """This ticket waits no more."""

    @abstractmethod
    def interrupt(self, id: str) -> None:
        """Make this ticket look again, now or as soon as it is parked. Called from any thread."""

    def forget(self, id: str) -> None:  # noqa: B027 - only one kind has to
        """Its ticket is leaving the queue, by whoever's hand. Called before the transaction."""

    @abstractmethod
    def close(self) -> None:
        """Send everyone off."""


class BlockingWaits(Waits):
    """A pipe for each thread that waits, kept for the next one."""

    def __init__(self, pipes: Pipes, io: IO) -> None:
        self._pipes = pipes
        self._io = io
        self._numbers = count(1)
        self._waits: dict[str, tuple[Pipe, int]] = {}
        self._idle: list[Pipe] = []
        self._closed = False

    def listen(self, id: str) -> str:
        wait = self._waits.get(id)
        if wait is not None and not self._pipes.reachable(wait[0]):
            self.drop(id)
            wait = None
        if wait is None:
            wait = self._waits[id] = self._pipe(), next(self._numbers)
        return f"{wait[0].name}:{wait[1]}"

    async def park(self, id: str, until: float) -> Standing | None:
        wait = self._waits.get(id)
        if wait is None:
            return None
        pipe, number = wait
        while (left := until - self._io.now()) > 0:
            pipe.poll.poll(math.ceil(left * 1e3))
            # A message may also be for a ticket that listened here earlier.
            heard = [message for message in pipe.read() if message.number == number]
            if heard:
                return _standing(heard)
        return None

    def drop(self, id: str) -> None:
        wait = self._waits.pop(id, None)
        if wait is None:
            return
        if len(self._idle) < _IDLE_PIPES and not self._closed:
            self._idle.append(wait[0])
        else:
            self._pipes.remove(wait[0])

    def interrupt(self, id: str) -> None:
        wait = self._waits.get(id)
        if wait is not None:
            pipe, number = wait
            pipe.nudge(number)

    def close(self) -> None:
        self._closed = True
        while self._idle:
            self._pipes.remove(self._idle.pop())
        # A pipe that a thread listens to must not be closed under it: the thread will drop it.
        for pipe, number in list(self._waits.values()):
            pipe.nudge(number)

    def _pipe(self) -> Pipe:
        while self._idle:
            pipe = self._idle.pop()
            if self._pipes.reachable(pipe):
                return pipe
            self._pipes.remove(pipe)
        return self._pipes.make()


class _Wait:
    __slots__ = ("event", "heard", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.event: Event | None = None
        self.heard: list[Message] = []

    def hear(self, message: Message) -> None:
        self.heard.append(message)
        if self.event is not None:
            self.event.set()


class AsyncioWaits(Waits):
    """One pipe for all tasks of a client, read by its event loop."""

    def __init__(self, pipes: Pipes, io: IO) -> None:
        self._pipes = pipes
        self._io = io
        self._numbers = count(1)
        self._waits: dict[str, _Wait] = {}
        self._by_number: dict[int, _Wait] = {}
        self._pipe: Pipe | None = None
        self._reading: Pipe | None = None

    def listen(self, id: str) -> str:
        # In the worker thread: `park` tells the loop about a new pipe.
        if self._pipe is None or not self._pipes.reachable(self._pipe):
            self._pipe = self._pipes.make()
        wait = self._waits.get(id)
        if wait is None:
            wait = self._waits[id] = _Wait(next(self._numbers))
            self._by_number[wait.number] = wait
        return f"{self._pipe.name}:{wait.number}"

    async def park(self, id: str, until: float) -> Standing | None:
        wait = self._waits.get(id)
        if wait is None:
            return None
        if self._reading is not self._pipe:
            self._read_from(self._pipe)
        # Before the look at what was heard: one who rouses from another thread must not be missed.
        wait.event = self._io.event()
        if not wait.heard:
            await wait.event.wait(max(0.0, until - self._io.now()))
        heard, wait.heard = wait.heard, []
        return _standing(heard) if heard else None

    def drop(self, id: str) -> None:
        wait = self._waits.pop(id, None)
        if wait is not None:
            self._by_number.pop(wait.number, None)

    def interrupt(self, id: str) -> None:
        wait = self._waits.get(id)
        if wait is not None:
            wait.hear(Message(wait.number, 0, LOOK))

    def forget(self, id: str) -> None:
        # An `enter` that was cancelled may have made it listen after it was dropped. This runs in
        # the same worker thread, behind that.
        self.drop(id)

    def close(self) -> None:
        if self._pipe is not None and self._pipe is not self._reading:
            self._pipes.remove(self._pipe)
        self._pipe = None
        self._read_from(None)
        for wait in list(self._waits.values()):
            if wait.event is not None:
                wait.event.set()

    def _read_from(self, pipe: Pipe | None) -> None:
        loop = asyncio.get_running_loop()
        if self._reading is not None:
            loop.remove_reader(self._reading.fd)
            self._pipes.remove(self._reading)
        self._reading = pipe
        if pipe is not None:
            loop.add_reader(pipe.fd, self._read, pipe)

    def _read(self, pipe: Pipe) -> None:
        for message in pipe.read():
            wait = self._by_number.get(message.number)
            if wait is not None:
                wait.hear(message)


def _standing(heard: list[Message]) -> Standing | None:
    """What the messages for one ticket come to; None: look again."""
    message = max(heard, key=lambda message: message.meaning)
    if message.meaning == LOOK:
        return None
    return Standing(ADMITTED, message.fence, message.meaning == ABANDONED)
