"""The watches of all waiting tickets of a client, in one stream.

A waiter watches the ticket ahead of it and its own. What it hears is only a reason to look: who holds
is decided by a transaction, never by an event.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from itertools import count
from weakref import WeakSet

from holdfast.core.backoff import Backoff
from holdfast.engines.etcd.cluster import Cluster
from holdfast.engines.etcd.messages_pb2 import (
    Event,
    KeyValue,
    WatchCancelRequest,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from holdfast.engines.etcd.node import Node, Stream
from holdfast.engines.etcd.troubles import Broken
from holdfast.io.contract import IO, Task
from holdfast.io.contract import Event as Flag

_OPENING = 2.0
"""Seconds that it may take to log in for a stream."""

_QUIET = 1.0
"""Seconds that a fork waits for streams to end."""

_STEADY = 5.0
"""Seconds after which a stream that ends was a good one, and the next is opened at once."""


class Watcher:
    """What one waiting ticket listens for."""

    __slots__ = ("ahead", "broken", "flag", "number", "over", "own", "renewed", "revision")

    def __init__(self, ahead: bytes, own: bytes, revision: int, flag: Flag) -> None:
        self.ahead = ahead
        self.own = own
        self.revision = revision
        """What happened up to here is known."""
        self.flag = flag
        self.number = 0
        self.over = False
        """One of the two is gone, or it is not known any more: look again."""
        self.renewed: KeyValue | None = None
        """The ticket ahead as its last renewal left it."""
        self.broken: Broken | None = None


class Watches:
    """Opens the stream when the first one waits, resumes it elsewhere if it breaks, and ends it."""

    def __init__(self, cluster: Cluster, io: IO, on_renewed: Callable[[KeyValue], None]) -> None:
        self._cluster = cluster
        self._io = io
        self._on_renewed = on_renewed
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._numbers = count(1)
        self._watchers: dict[int, Watcher] = {}
        self._stream: Stream | None = None
        self._task: Task | None = None
        self._closed = False
        self._forking = False
        cluster.on_move = self._move
        if io.blocking:
            _all.add(self)

    def add(self, ahead: bytes, own: bytes, revision: int) -> Watcher:
        """Listen for what happens to two keys after a revision."""
        watcher = Watcher(ahead, own, revision, self._io.event())
        with self._mutex:
            watcher.number = next(self._numbers)
            self._watchers[watcher.number] = watcher
            if self._closed:
                _look_again(watcher)
            elif self._stream is not None:
                self._create(self._stream, watcher)
            elif self._task is None:
                self._task = self._io.spawn(self._run(), "holdfast-watches")
        return watcher

    def drop(self, watcher: Watcher) -> None:
        """Listen no more; whoever still waits for it looks again."""
        _look_again(watcher)
        with self._mutex:
            if self._watchers.pop(watcher.number, None) is not None and self._stream is not None:
                for id in _ids(watcher):
                    cancel = WatchCancelRequest(watch_id=id)
                    self._stream.send(WatchRequest(cancel_request=cancel))

    async def close(self) -> None:
        """Send everyone off, and end the stream."""
        with self._mutex:
            self._closed = True
            watchers, stream, task = list(self._watchers.values()), self._stream, self._task
        for watcher in watchers:
            _look_again(watcher)
        if stream is not None:
            stream.close()
        if task is not None:
            await task.join()

    def pause(self) -> None:
        """Have no stream while this process forks: a child gets hold of what a thread does in gRPC."""
        with self._mutex:
            self._forking = True
            if self._stream is not None:
                self._stream.close()
        end = self._io.now() + _QUIET
        while self._stream is not None and self._io.now() < end:
            time.sleep(0.001)

    def go_on(self) -> None:
        self._forking = False

    def _move(self) -> None:
        """The server we listen to does not answer others either."""
        with self._mutex:
            if self._stream is not None:
                self._stream.close()

    def _idle(self) -> bool:
        return not self._watchers

    async def _run(self) -> None:
        failed = 0
        backoff = Backoff(0.01, 0.5, self._io.random)
        while self._wanted():
            while self._forking:
                await self._io.event().wait(0.01)
            opened = self._io.now()
            heard, error = await self._listen()
            failed = 0 if heard else failed + 1
            if error is not None and failed >= len(self._cluster):
                self._give_up(error)
                failed = 0
            if self._io.now() - opened > _STEADY:
                backoff.reset()
            elif self._wanted():
                await self._io.event().wait(backoff.next())

    def _wanted(self) -> bool:
        with self._mutex:
            if self._watchers and not self._closed:
                return True
            self._task = None
            return False

    async def _listen(self) -> tuple[bool, Broken | None]:
        """Listen until the stream ends: whether anything came, and what broke it."""
        node: Node = self._cluster.node
        stream: Stream | None = None
        heard = False
        try:
            node, stream = await self._cluster.watch(self._io.now() + _OPENING, self._idle)
            with self._mutex:
                self._stream = stream
                for watcher in self._watchers.values():
                    self._create(stream, watcher)
            if self._forking or self._closed:  # since we began to open it
                stream.close()
            while (response := await stream.receive()) is not None:
                heard = True
                self._heard(response)
        except Broken as error:
            self._cluster.mistrust(node)
            return heard, error
        finally:
            with self._mutex:
                self._stream = None
            if stream is not None:
                await stream.ended()
        return heard, None

    def _create(self, stream: Stream, watcher: Watcher) -> None:
        ahead, own = _ids(watcher)
        start = watcher.revision + 1
        for create in (
            WatchCreateRequest(key=watcher.ahead, start_revision=start, watch_id=ahead),
            WatchCreateRequest(
                key=watcher.own,
                start_revision=start,
                watch_id=own,
                filters=[WatchCreateRequest.NOPUT],
            ),
        ):
            stream.send(WatchRequest(create_request=create))

    def _heard(self, response: WatchResponse) -> None:
        watcher = self._watchers.get(response.watch_id // 2)
        if watcher is None:
            return
        if response.canceled:
            if not response.compact_revision:
                # Our token may have expired: the next stream comes with a new one.
                self._cluster.log_out()
                self._move()
            _look_again(watcher)
        for event in response.events:
            watcher.revision = event.kv.mod_revision
            if event.type == Event.DELETE:
                _look_again(watcher)
            else:
                # No reason to wake up: it is enough to know it when the time would be up.
                watcher.renewed = event.kv
                self._on_renewed(event.kv)

    def _give_up(self, error: Broken) -> None:
        """No server lets us listen: those who wait have to know."""
        with self._mutex:
            watchers = list(self._watchers.values())
            self._watchers.clear()
        for watcher in watchers:
            watcher.broken = error
            watcher.flag.set()


_all: WeakSet[Watches] = WeakSet()


def _before_fork() -> None:
    for watches in list(_all):
        watches.pause()


def _after_fork() -> None:
    for watches in list(_all):
        watches.go_on()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_all.clear)


def _ids(watcher: Watcher) -> tuple[int, int]:
    """The numbers of its two watches; etcd takes 0 for none."""
    return 2 * watcher.number, 2 * watcher.number + 1


def _look_again(watcher: Watcher) -> None:
    watcher.over = True
    watcher.flag.set()
