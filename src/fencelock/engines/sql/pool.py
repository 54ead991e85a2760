"""A small connection pool: many callers share a few connections, first come, first served.

A waiting ticket needs no connection. So the number of connections is the number of requests that are
under way at the same moment. Beyond the limit a request waits until a connection is free.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic

from fencelock.engines.failure import RequestFailed
from fencelock.engines.sql.database import W, client_closed
from fencelock.io.contract import IO, Event


class _Caller(Generic[W]):
    """A caller that waits for a connection. It is granted a connection, or the right to open one."""

    __slots__ = ("event", "granted", "wire")

    def __init__(self, event: Event) -> None:
        self.event = event
        self.granted = False
        self.wire: W | None = None


class Pool(Generic[W]):
    """Opens connections when they are needed, and keeps them."""

    def __init__(self, connect: Callable[[float], Awaitable[W]], io: IO, limit: int) -> None:
        self._connect = connect
        self._io = io
        self._limit = limit
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._idle: list[W] = []
        self._open = 0
        """Connections that exist or are being opened."""
        self._waiting: deque[_Caller[W]] = deque()
        self._closed = False

    async def take(self, timeout: float) -> W:
        """Take an idle connection, open a new one, or wait for the next one that is given back."""
        started = self._io.now()
        caller: _Caller[W] | None = None
        with self._mutex:
            self._check_open()
            wire = self._take_idle()
            if wire is not None:
                return wire
            if self._open < self._limit:
                self._open += 1
            else:
                caller = _Caller(self._io.event())
                self._waiting.append(caller)
        if caller is not None:
            wire = await self._wait(caller, timeout)
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
            self._check_open()
        return wire

    def give(self, wire: W) -> None:
        """Give a connection back."""
        with self._mutex:
            if wire.broken:
                wire.close()
                # Most often the same fault has cut the idle ones, too: don't fail once for each of them.
                self._close_idle()
                self._pass_on(None)
            else:
                self._pass_on(wire)

    def close(self) -> None:
        """Close the idle connections now, and the others when they are given back."""
        with self._mutex:
            self._closed = True
            self._close_idle()
            while self._waiting:
                self._waiting.popleft().event.set()

    def _check_open(self) -> None:
        if self._closed:
            raise client_closed()

    def _take_idle(self) -> W | None:
        while self._idle:
            wire = self._idle.pop()
            if not wire.is_cut():
                return wire
            wire.close()
            self._open -= 1
        return None

    def _close_idle(self) -> None:
        self._open -= len(self._idle)
        while self._idle:
            self._idle.pop().close()

    def _pass_on(self, wire: W | None) -> None:
        """Give a connection, or None for the right to open one, to the caller that has waited longest."""
        if self._waiting:
            caller = self._waiting.popleft()
            caller.granted, caller.wire = True, wire
            caller.event.set()
        elif wire is not None and not self._closed:
            self._idle.append(wire)
        else:
            self._open -= 1
            if wire is not None:
                wire.close()

    async def _wait(self, caller: _Caller[W], timeout: float) -> W | None:
        try:
            await caller.event.wait(timeout)
        except BaseException:
            with self._mutex:
                if caller.granted:
                    self._pass_on(caller.wire)
                elif not self._closed:
                    self._waiting.remove(caller)
            raise
        with self._mutex:
            if caller.granted:
                return caller.wire
            self._check_open()
            self._waiting.remove(caller)
        raise RequestFailed(
            f"all {self._limit} connections of this client were busy for {timeout:.3g} s: "
            "raise ?connections= in the URL",
            "not applied",
        )
