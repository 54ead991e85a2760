"""The watches of all waiting tickets of a client, in one stream.

A waiter watches a ticket ahead of it, or several, and its own. What it hears is only a reason to look: who
holds is decided by a transaction, never by an event.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from weakref import WeakSet

from holdfast.core.backoff import Backoff
from holdfast.engines.etcd.admission import Ahead
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

    __slots__ = ("broken", "ears", "flag", "lacking", "over", "renewed")

    def __init__(self, lacking: int, flag: Flag) -> None:
        self.lacking = lacking
        """How much weight of those ahead has still to go; 0: nobody may."""
        self.flag = flag
        self.ears: list[_Ear] = []
        self.over = False
        """Enough of those ahead are gone, or the own ticket is, or it is not known any more: look again."""
        self.renewed = False
        """Whether somebody ahead was renewed since this was last asked."""
        self.broken: Broken | None = None

    def listens_to(self, ahead: Sequence[Ahead]) -> bool:
        watched = {ear.ahead.fence for ear in self.ears if ear.ahead is not None}
        return watched == {one.fence for one in ahead}

    def ahead(self) -> Iterator[Ahead]:
        """Those ahead, as they were last heard of."""
        return (ear.ahead for ear in self.ears if ear.ahead is not None)


class _Ear:
    """One watch: on a ticket ahead, or on the own one."""

    __slots__ = ("ahead", "id", "key", "revision", "watcher")

    def __init__(self, id: int, watcher: Watcher, key: bytes, ahead: Ahead | None) -> None:
        self.id = id
        self.watcher = watcher
        self.key = key
        self.ahead = ahead
        """None: it is the own one."""
        self.revision = 0
        """What happened up to here is known."""


class Watches:
    """Opens the stream when the first one waits, resumes it elsewhere if it breaks, and ends it."""

    def __init__(self, cluster: Cluster, io: IO, on_renewed: Callable[[KeyValue], Ahead]) -> None:
        self._cluster = cluster
        self._io = io
        self._on_renewed = on_renewed
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ids = count(1)  # etcd takes 0 for none
        self._ears: dict[int, _Ear] = {}
        self._stream: Stream | None = None
        self._task: Task | None = None
        self._closed = False
        self._forking = False
        cluster.on_move = self._move
        if io.blocking:
            _all.add(self)

    def add(self, ahead: Sequence[Ahead], lacking: int, own: bytes, revision: int) -> Watcher:
        """Listen for what happens to those ahead and to the own ticket after a revision."""
        watcher = Watcher(lacking, self._io.event())
        with self._mutex:
            watcher.ears = [_Ear(next(self._ids), watcher, one.key, one) for one in ahead]
            watcher.ears.append(_Ear(next(self._ids), watcher, own, None))
            for ear in watcher.ears:
                ear.revision = revision
                self._ears[ear.id] = ear
            if self._closed:
                _look_again(watcher)
            elif self._stream is not None:
                for ear in watcher.ears:
                    self._create(self._stream, ear)
            elif self._task is None:
                self._task = self._io.spawn(self._run(), "holdfast-watches")
        return watcher

    def drop(self, watcher: Watcher) -> None:
        """Listen no more; whoever still waits for it looks again."""
        _look_again(watcher)
        with self._mutex:
            for ear in watcher.ears:
                self._close(ear)

    async def close(self) -> None:
        """Send everyone off, and end the stream."""
        with self._mutex:
            self._closed = True
            ears, stream, task = list(self._ears.values()), self._stream, self._task
        for ear in ears:
            _look_again(ear.watcher)
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
        return not self._ears

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
            if self._ears and not self._closed:
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
                for ear in self._ears.values():
                    self._create(stream, ear)
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

    def _create(self, stream: Stream, ear: _Ear) -> None:
        # Of the own ticket's renewals one knows.
        filters = [WatchCreateRequest.NOPUT] if ear.ahead is None else []
        create = WatchCreateRequest(
            key=ear.key, start_revision=ear.revision + 1, watch_id=ear.id, filters=filters
        )
        stream.send(WatchRequest(create_request=create))

    def _close(self, ear: _Ear) -> None:
        if self._ears.pop(ear.id, None) is not None and self._stream is not None:
            cancel = WatchCancelRequest(watch_id=ear.id)
            self._stream.send(WatchRequest(cancel_request=cancel))

    def _heard(self, response: WatchResponse) -> None:
        ear = self._ears.get(response.watch_id)
        if ear is None:
            return
        if response.canceled:
            if not response.compact_revision:
                # Our token may have expired: the next stream comes with a new one.
                self._cluster.log_out()
                self._move()
            _look_again(ear.watcher)
        for event in response.events:
            ear.revision = event.kv.mod_revision
            if event.type == Event.DELETE:
                self._gone(ear)
                return  # what comes after that is another ticket's
            self._renewed(ear, event.kv)

    def _gone(self, ear: _Ear) -> None:
        watcher = ear.watcher
        if ear.ahead is not None and watcher.lacking > ear.ahead.share.weight:
            watcher.lacking -= ear.ahead.share.weight
            watcher.ears = [other for other in watcher.ears if other is not ear]
            with self._mutex:
                self._close(ear)
        else:
            _look_again(watcher)

    def _renewed(self, ear: _Ear, kv: KeyValue) -> None:
        before, ear.ahead = ear.ahead, self._on_renewed(kv)
        # That it goes on is no reason to wake up: it is enough to know it when the time would be up.
        ear.watcher.renewed = True
        if before is not None and not ear.ahead.only_renewed(before):
            _look_again(ear.watcher)

    def _give_up(self, error: Broken) -> None:
        """No server lets us listen: those who wait have to know."""
        with self._mutex:
            watchers = {ear.watcher for ear in self._ears.values()}
            self._ears.clear()
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


def _look_again(watcher: Watcher) -> None:
    watcher.over = True
    watcher.flag.set()
