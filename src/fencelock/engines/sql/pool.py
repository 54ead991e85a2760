"""A small pool: a few connections for however many callers, handed out in order of asking.

A waiting ticket has no connection, so the number of connections is the number of requests that are
under way at the same moment. Beyond the limit a request waits for its turn.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.database import Wire
from fencelock.io.contract import IO, Event

W = TypeVar("W", bound=Wire)


class _Turn(Generic[W]):
    """One that waits for a connection: what it gets is one, or the right to open one."""

    __slots__ = ("event", "granted", "wire")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.granted = False
        self.wire: W | None = None


class Pool(Generic[W]):
    """Connections that are opened when needed, and kept."""

    def __init__(self, connect: Callable[[float], Awaitable[W]], io: IO, limit: int) -> None:
        self._connect = connect
        self._io = io
        self._limit = limit
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._idle: list[W] = []
        self._open = 0
        """Connections that exist or are being opened."""
        self._waiting: deque[_Turn[W]] = deque()
        self._closed = False

    async def take(self, timeout: float) -> W:
        """A connection that is free, a new one, or the next that comes back."""
        started = self._io.now()
        turn: _Turn[W] | None = None
        with self._mutex:
            self._verify()
            wire = self._ready()
            if wire is not None:
                return wire
            if self._open < self._limit:
                self._open += 1
            else:
                turn = _Turn(self._io.event())
                self._waiting.append(turn)
        if turn is not None:
            wire = await self._await(turn, timeout)
            if wire is not None:
                return wire
        try:
            wire = await self._connect(timeout - (self._io.now() - started))
        except BaseException:
            with self._mutex:
                self._pass_on(None)
            raise
        with self._mutex:
            if self._closed:  # in the meantime
                self._pass_on(wire)
            self._verify()
        return wire

    def give(self, wire: W) -> None:
        """Give a connection back."""
        with self._mutex:
            if wire.broken:
                wire.close()
                # The others were cut by the same fault more often than not: don't fail once for each.
                self._drop_idle()
                self._pass_on(None)
            else:
                self._pass_on(wire)

    def close(self) -> None:
        """Close what is idle now, and the others when they come back."""
        with self._mutex:
            self._closed = True
            self._drop_idle()
            while self._waiting:
                self._waiting.popleft().event.set()

    def _verify(self) -> None:
        if self._closed:
            raise DatabaseFailed("the client was closed", "not applied")

    def _ready(self) -> W | None:
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_cut():
                return wire
            wire.close()
            self._open -= 1
        return None

    def _drop_idle(self) -> None:
        self._open -= len(self._idle)
        while self._idle:
            self._idle.pop().close()

    def _pass_on(self, wire: W | None) -> None:
        """Hand a connection, or None for the right to open one, to whoever has waited longest."""
        if self._waiting:
            turn = self._waiting.popleft()
            turn.granted, turn.wire = True, wire
            turn.event.set()
        elif wire is not None and not self._closed:
            self._idle.append(wire)
        else:
            self._open -= 1
            if wire is not None:
                wire.close()

    async def _await(self, turn: _Turn[W], timeout: float) -> W | None:
        try:
            await turn.event.wait(timeout)
        except BaseException:
            with self._mutex:
                if turn.granted:
                    self._pass_on(turn.wire)
                elif not self._closed:
                    self._waiting.remove(turn)
            raise
        with self._mutex:
            if turn.granted:
                return turn.wire
            self._verify()
            self._waiting.remove(turn)
        raise DatabaseFailed(
            f"all {self._limit} connections of this client were busy for {timeout:.3g} s",
            "not applied",
        )
