"""Receiving wake-ups for the waiting tickets of one client: in threads, or in tasks."""

from __future__ import annotations

import asyncio
import math
from itertools import count

from fencelock.core.ticket import ADMITTED, Standing
from fencelock.engines.sqlite.named_pipes import ABANDONED, LOOK, Message, Pipe, Pipes
from fencelock.io.contract import IO, Event

_MAX_IDLE_PIPES = 32
"""The number of pipes that a client keeps for the next threads that wait."""


class BlockingListener:
    """The waiting tickets of a client in threads. Each has a number, which the messages for it carry.

    There is one pipe for each waiting thread. A pipe is kept for the next thread.
    """

    def __init__(self, pipes: Pipes, io: IO) -> None:
        self._pipes = pipes
        self._io = io
        self._numbers = count(1)
        self._waiting: dict[str, tuple[Pipe, int]] = {}
        self._idle: list[Pipe] = []
        self._closed = False

    def listen(self, id: str) -> str:
        """Get ready for messages to a ticket, and return its address. Called inside the transaction."""
        waiting = self._waiting.get(id)
        if waiting is not None and not self._pipes.reachable(waiting[0]):
            self.drop(id)
            waiting = None
        if waiting is None:
            waiting = self._waiting[id] = self._pipe(), next(self._numbers)
        return f"{waiting[0].name}:{waiting[1]}"

    async def park(self, id: str, until: float) -> Standing | None:
        """Sleep until a message comes, or until a moment of the io's clock."""
        waiting = self._waiting.get(id)
        if waiting is None:
            return None
        pipe, number = waiting
        while (left := until - self._io.now()) > 0:
            pipe.poll.poll(math.ceil(left * 1e3))
            # Other messages are for tickets that used this pipe earlier.
            received = [message for message in pipe.read() if message.number == number]
            if received:
                return _standing(received)
        return None

    def drop(self, id: str) -> None:
        """Stop listening for this ticket."""
        waiting = self._waiting.pop(id, None)
        if waiting is None:
            return
        if len(self._idle) < _MAX_IDLE_PIPES and not self._closed:
            self._idle.append(waiting[0])
        else:
            self._pipes.remove(waiting[0])

    def interrupt(self, id: str) -> None:
        """Make this ticket look again, now or as soon as it is parked. Called from any thread."""
        waiting = self._waiting.get(id)
        if waiting is not None:
            waiting[0].look_again(waiting[1])

    def leaving(self, id: str) -> None:
        """A ticket is about to leave the queue. Called before the transaction."""

    def close(self) -> None:
        """End every park."""
        self._closed = True
        while self._idle:
            self._pipes.remove(self._idle.pop())
        # A pipe must not be closed while a thread listens to it. That thread drops it.
        for pipe, number in list(self._waiting.values()):
            pipe.look_again(number)

    def _pipe(self) -> Pipe:
        while self._idle:
            pipe = self._idle.pop()
            if self._pipes.reachable(pipe):
                return pipe
            self._pipes.remove(pipe)
        return self._pipes.make()


class _WaitingTicket:
    __slots__ = ("event", "number", "received")

    def __init__(self, number: int) -> None:
        self.number = number
        self.event: Event | None = None
        self.received: list[Message] = []

    def receive(self, message: Message) -> None:
        self.received.append(message)
        if self.event is not None:
            self.event.set()


class AsyncioListener:
    """The waiting tickets of a client in tasks. One pipe is for all of them. The event loop reads it."""

    def __init__(self, pipes: Pipes, io: IO) -> None:
        self._pipes = pipes
        self._io = io
        self._numbers = count(1)
        self._waiting: dict[str, _WaitingTicket] = {}
        self._by_number: dict[int, _WaitingTicket] = {}
        self._pipe: Pipe | None = None
        self._reading: Pipe | None = None

    def listen(self, id: str) -> str:
        # This runs in the worker thread. `park` runs in the loop and lets it read a new pipe.
        if self._pipe is None or not self._pipes.reachable(self._pipe):
            self._pipe = self._pipes.make()
        waiting = self._waiting.get(id)
        if waiting is None:
            waiting = self._waiting[id] = _WaitingTicket(next(self._numbers))
            self._by_number[waiting.number] = waiting
        return f"{self._pipe.name}:{waiting.number}"

    async def park(self, id: str, until: float) -> Standing | None:
        waiting = self._waiting.get(id)
        if waiting is None:
            return None
        if self._reading is not self._pipe:
            self._read_from(self._pipe)
        # The event is there before the messages are checked, so an interrupt from another thread is
        # never missed.
        waiting.event = self._io.event()
        if not waiting.received:
            await waiting.event.wait(max(0.0, until - self._io.now()))
        received, waiting.received = waiting.received, []
        return _standing(received) if received else None

    def drop(self, id: str) -> None:
        waiting = self._waiting.pop(id, None)
        if waiting is not None:
            self._by_number.pop(waiting.number, None)

    def interrupt(self, id: str) -> None:
        waiting = self._waiting.get(id)
        if waiting is not None:
            waiting.receive(Message(waiting.number, 0, LOOK))

    def leaving(self, id: str) -> None:
        # A cancelled `enter` may have made the ticket listen after it was dropped. This runs later in
        # the same worker thread.
        self.drop(id)

    def close(self) -> None:
        if self._pipe is not None and self._pipe is not self._reading:
            self._pipes.remove(self._pipe)
        self._pipe = None
        self._read_from(None)
        for waiting in list(self._waiting.values()):
            if waiting.event is not None:
                waiting.event.set()

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
            waiting = self._by_number.get(message.number)
            if waiting is not None:
                waiting.receive(message)


Listener = BlockingListener | AsyncioListener


def _standing(received: list[Message]) -> Standing | None:
    """What the messages for one ticket say. None means: look again."""
    message = max(received, key=lambda message: message.meaning)
    if message.meaning == LOOK:
        return None
    return Standing(ADMITTED, message.fence, message.meaning == ABANDONED)
