"""The watches of all waiting tickets of a client, in one stream.

A waiter watches a ticket ahead of it, or several, and its own. What it hears is only a reason to look: who
holds is decided by a transaction, never by an event. `ears.py` has what each of them is told.

A watch begins when etcd says so, never in the past: of that etcd tells only ten times a second, and if it
was compacted meanwhile, it may even leave out that a key was deleted. Whoever has missed something looks.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from itertools import count
from weakref import WeakSet

from fencelock.core.backoff import Backoff
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.ears import Ear, OnRenewed, Watcher
from fencelock.engines.etcd.messages_pb2 import (
    WatchCancelRequest,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from fencelock.engines.etcd.node import Node, Stream
from fencelock.engines.etcd.revisions import Revisions
from fencelock.engines.etcd.troubles import CallFailed
from fencelock.io.contract import IO, Event, Task

log = logging.getLogger("fencelock")

_OPENING = 2.0
"""Seconds that it may take to log in for a stream."""

_QUIET = 1.0
"""Seconds that a fork waits for streams to end."""

_ENDING = 5.0
"""Seconds that a client that is closed waits for its stream to end, whatever has become of it."""

_SPARED = 64
"""Watches that stay though nobody needs them at present."""

_UNWANTED = 3
"""Events that such a watch may hear; at the next one it ends. Two come each time its key is used again."""

_STEADY = 5.0
"""Seconds after which a stream that ends was a good one, and the next is opened at once."""


class Watches:
    """Opens the stream when the first one waits, another one elsewhere if it breaks, and ends it."""

    def __init__(
        self, cluster: Cluster, io: IO, on_renewed: OnRenewed, revisions: Revisions
    ) -> None:
        self._cluster = cluster
        self._io = io
        self._revisions = revisions
        self._on_renewed = on_renewed
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ids = count(1)  # etcd takes 0 for none
        self._ears: dict[int, Ear] = {}
        self._by_key: dict[tuple[bytes, bool], Ear] = {}
        self._spared: dict[int, Ear] = {}
        """Those that nobody needs at present, the one that was needed last at the end."""
        self._used = False
        self._stream: Stream | None = None
        self._task: Task | None = None
        self._ended: Event
        self._closed = False
        self._forking = False
        cluster.on_move = self._move
        if io.blocking:
            _all.add(self)

    def add(self, watcher: Watcher, own: bytes) -> None:
        """Listen for what happens to those ahead of a watcher and to its own ticket."""
        with self._mutex:
            if self._closed or watcher.over:  # or it was dropped already, by another thread
                watcher.look_again()
                return
            for key, is_own in ((own, True), *((key, False) for key in tuple(watcher.ahead))):
                self._ear(key, is_own).join(watcher, self._on_renewed)
            self._used = True
            if self._task is None:
                self._ended = self._io.event()
                self._task = self._io.spawn(self._run(self._ended), "fencelock-watches")

    def drop(self, watcher: Watcher) -> None:
        """Listen no more; whoever still waits for it looks again."""
        watcher.look_again()
        with self._mutex:
            for ear in watcher.ears:
                ear.watchers.discard(watcher)
                if not ear.watchers and self._ears.get(ear.id) is ear:
                    self._spare(ear)

    async def close(self) -> None:
        """Send everyone off, and end the stream."""
        with self._mutex:
            self._closed = True
            stream, task = self._stream, self._task
            for ear in self._ears.values():
                ear.dismiss()
        if stream is not None:
            stream.close()
        if task is not None and await self._ended.wait(_ENDING):
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
        """Whether nobody waits, nor has since this was last asked: a stream is not made anew for nothing."""
        used, self._used = self._used, False
        return not used and self._nobody()

    def _nobody(self) -> bool:
        return not any(ear.watchers for ear in tuple(self._ears.values()))

    async def _run(self, ended: Event) -> None:
        try:
            await self._go_on_listening()
        except BaseException as error:  # whatever it is: the next watcher begins anew
            with self._mutex:
                self._task = None
            self._give_up(CallFailed(f"the listener failed: {error!r}", "not applied"))
            if not isinstance(error, Exception):
                raise
            log.warning("a listener has ended, and another one takes its place", exc_info=error)
        finally:
            ended.set()

    async def _go_on_listening(self) -> None:
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
            elif self._needed():
                await self._io.event().wait(backoff.next())

    def _needed(self) -> bool:
        return not self._nobody() and not self._closed

    def _wanted(self) -> bool:
        """Whether to go on; if not, whoever comes next begins anew."""
        with self._mutex:
            if not self._needed():
                self._task = None
            return self._task is not None

    async def _listen(self) -> tuple[bool, CallFailed | None]:
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
        except CallFailed as error:
            self._cluster.mistrust(node)
            return heard, error
        finally:
            with self._mutex:
                self._stream = None
                for ear in list(self._ears.values()):
                    if ear.watchers:
                        ear.end()
                    else:
                        self._forget(ear)
            if stream is not None:
                await stream.ended()
        return heard, None

    # --- the ears; all of this with the mutex held

    def _ear(self, key: bytes, own: bool) -> Ear:
        """The one on this key, or a new one."""
        ear = self._by_key.get((key, own))
        if ear is None:
            ear = Ear(next(self._ids), key, own)
            if self._stream is not None:
                self._create(self._stream, ear)
            # Only now: if this is interrupted, nobody must count on a watch that was never asked for.
            self._ears[ear.id] = self._by_key[key, own] = ear
        self._spared.pop(ear.id, None)
        ear.unwanted = 0
        return ear

    def _create(self, stream: Stream, ear: Ear) -> None:
        filters = [WatchCreateRequest.NOPUT] if ear.own else []
        create = WatchCreateRequest(key=ear.key, watch_id=ear.id, filters=filters)
        stream.send(WatchRequest(create_request=create))

    def _spare(self, ear: Ear) -> None:
        """Nobody needs it at present."""
        self._spared[ear.id] = ear
        if len(self._spared) > _SPARED:
            self._close(next(iter(self._spared.values())))

    def _close(self, ear: Ear) -> None:
        self._forget(ear)
        if self._stream is not None:
            cancel = WatchCancelRequest(watch_id=ear.id)
            self._stream.send(WatchRequest(cancel_request=cancel))

    def _forget(self, ear: Ear) -> None:
        del self._ears[ear.id], self._by_key[ear.key, ear.own]
        self._spared.pop(ear.id, None)

    def _heard(self, response: WatchResponse) -> None:
        self._revisions.reached(response.header.revision, self._io.now())
        with self._mutex:
            ear = self._ears.get(response.watch_id)
            # A watch that was not even begun has no number yet. What we ended ourselves has no ear any more.
            if response.canceled and (ear is not None or response.watch_id < 0):
                self._refused()
            elif ear is not None:
                if response.created:
                    ear.begin(response.header.revision)
                for event in response.events:
                    ear.hear(event, self._on_renewed)
                if ear.unwanted > _UNWANTED:
                    self._close(ear)

    def _refused(self) -> None:
        """Our token may have expired: the next stream comes with a new one, and begins all of them anew."""
        self._cluster.log_out()
        if self._stream is not None:
            self._stream.close()

    def _give_up(self, error: CallFailed) -> None:
        """No server lets us listen: those who wait have to know."""
        with self._mutex:
            watchers = {watcher for ear in self._ears.values() for watcher in ear.watchers}
            for ear in list(self._ears.values()):
                self._forget(ear)
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
