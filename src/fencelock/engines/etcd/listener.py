"""The watches of all waiting tickets of a client, in one stream.

A waiting ticket watches its own key and one ticket ahead of it, or several. An event is only a reason to
look: a transaction decides who holds, never an event. `watches.py` has what each ticket is told.

A watch begins when etcd says so, never in the past: etcd reports the past only ten times a second, and if it
was compacted meanwhile, it may even leave out that a key was deleted. A ticket that missed an event looks.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import count
from weakref import WeakSet

from fencelock.core.backoff import Backoff
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.errors import CallFailed
from fencelock.engines.etcd.messages_pb2 import (
    WatchCancelRequest,
    WatchCreateRequest,
    WatchRequest,
    WatchResponse,
)
from fencelock.engines.etcd.node import Node, Stream
from fencelock.engines.etcd.watches import Watch, Watcher
from fencelock.io.contract import IO, Event, Task

log = logging.getLogger("fencelock.engine")

_LOGIN_TIMEOUT = 2.0
"""Seconds that the login for a stream may take."""

_FORK_TIMEOUT = 1.0
"""Seconds that a fork waits for streams to end."""

_CLOSE_TIMEOUT = 5.0
"""Seconds that closing a client waits for its stream to end."""

_MAX_SPARE = 64
"""How many watches stay though no ticket needs them at present."""

_MAX_UNNEEDED = 3
"""Events that a spare watch may report. It ends with the next one. Each new use of its key makes two."""

_STEADY_AFTER = 5.0
"""Seconds that a stream must last so that the next one is opened without a pause."""


class Listener:
    """Keeps a stream open while any ticket waits. If it breaks, opens another one at another server."""

    def __init__(self, cluster: Cluster, io: IO, on_revision: Callable[[int], None]) -> None:
        self._cluster = cluster
        self._io = io
        self._on_revision = on_revision
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._ids = count(1)  # etcd takes 0 for none
        self._watches: dict[int, Watch] = {}
        self._by_key: dict[tuple[bytes, bool], Watch] = {}
        self._spare: dict[int, Watch] = {}
        """The watches that no ticket needs at present. The one that was needed last is at the end."""
        self._used = False
        self._stream: Stream | None = None
        self._task: Task | None = None
        self._ended: Event
        self._closed = False
        self._forking = False
        cluster.on_move = self._close_stream
        if io.blocking:
            _all.add(self)

    def add(self, watcher: Watcher, own: bytes) -> None:
        """Listen for what happens to the tickets ahead of a watcher and to its own ticket."""
        with self._mutex:
            if self._closed or watcher.must_look:  # or another thread has dropped it already
                watcher.look_again()
                return
            for key, is_own in ((own, True), *((key, False) for key in tuple(watcher.ahead))):
                self._watch(key, is_own).join(watcher)
            self._used = True
            if self._task is None:
                self._ended = self._io.event()
                self._task = self._io.spawn(self._run(self._ended), "fencelock-watches")

    def drop(self, watcher: Watcher) -> None:
        """Listen no more for this watcher. If its ticket still waits, it looks again."""
        watcher.look_again()
        with self._mutex:
            for watch in watcher.watches:
                watch.watchers.discard(watcher)
                if not watch.watchers and self._watches.get(watch.id) is watch:
                    self._spare[watch.id] = watch
                    if len(self._spare) > _MAX_SPARE:
                        self._end(next(iter(self._spare.values())))

    async def close(self) -> None:
        """Wake all waiters, and end the stream."""
        with self._mutex:
            self._closed = True
            task = self._task
            for watch in self._watches.values():
                for watcher in watch.watchers:
                    watcher.look_again()
        self._close_stream()
        if task is not None and await self._ended.wait(_CLOSE_TIMEOUT):
            await task.join()

    def pause(self) -> None:
        """Have no stream while this process forks: the child would inherit a thread's state inside gRPC."""
        self._forking = True
        self._close_stream()
        end = self._io.now() + _FORK_TIMEOUT
        while self._stream is not None and self._io.now() < end:
            time.sleep(0.001)

    def resume(self) -> None:
        self._forking = False

    def _close_stream(self) -> None:
        """Also if the cluster has left a server that did not answer: the stream may be at that server."""
        with self._mutex:
            if self._stream is not None:
                self._stream.close()

    def _idle(self) -> bool:
        """Whether no ticket waits, and none has since the last call. So a stream is not closed too soon."""
        used, self._used = self._used, False
        return not used and not self._has_watchers()

    def _has_watchers(self) -> bool:
        return any(watch.watchers for watch in tuple(self._watches.values()))

    async def _run(self, ended: Event) -> None:
        try:
            await self._keep_listening()
        except BaseException as error:  # whatever it is: the next watcher starts a new task
            with self._mutex:
                self._task = None
            self._fail_all(CallFailed(f"the listener failed: {error!r}", "not applied"))
            if not isinstance(error, Exception):
                raise
            log.warning("a listener failed; the next waiter starts another one", exc_info=error)
        finally:
            ended.set()

    async def _keep_listening(self) -> None:
        failed = 0
        backoff = Backoff(0.01, 0.5, self._io.random)
        while self._goes_on():
            while self._forking:
                await self._io.event().wait(0.01)
            opened = self._io.now()
            heard, error = await self._listen()
            failed = 0 if heard else failed + 1
            if error is not None and failed >= len(self._cluster):
                self._fail_all(error)
                failed = 0
            if self._io.now() - opened > _STEADY_AFTER:
                backoff.reset()
            elif self._needed():
                await self._io.event().wait(backoff.next())

    def _needed(self) -> bool:
        return self._has_watchers() and not self._closed

    def _goes_on(self) -> bool:
        """Whether to listen again. If not, the next watcher starts a new task."""
        with self._mutex:
            if not self._needed():
                self._task = None
            return self._task is not None

    async def _listen(self) -> tuple[bool, CallFailed | None]:
        """Listen until the stream ends. Returns whether anything came, and what broke the stream."""
        node: Node = self._cluster.node
        stream: Stream | None = None
        heard = False
        try:
            node, stream = await self._cluster.watch(self._io.now() + _LOGIN_TIMEOUT, self._idle)
            with self._mutex:
                self._stream = stream
                for watch in self._watches.values():
                    _create(stream, watch)
            if self._forking or self._closed:  # since we began to open it
                stream.close()
            while (response := await stream.receive()) is not None:
                heard = True
                self._received(response)
        except CallFailed as error:
            self._cluster.leave(node)
            return heard, error
        finally:
            with self._mutex:
                self._stream = None
                for watch in list(self._watches.values()):
                    if watch.watchers:
                        watch.end()
                    else:
                        self._forget(watch)
            if stream is not None:
                await stream.ended()
        return heard, None

    def _received(self, response: WatchResponse) -> None:
        self._on_revision(response.header.revision)
        with self._mutex:
            watch = self._watches.get(response.watch_id)
            # A watch that could not even begin has a negative id. A watch that we ended is not known here.
            if response.canceled and (watch is not None or response.watch_id < 0):
                # Our token may have expired. The next stream logs in, and begins all watches anew.
                self._cluster.log_out()
                if self._stream is not None:
                    self._stream.close()
            elif watch is not None:
                if response.created:
                    watch.begin(response.header.revision)
                for event in response.events:
                    watch.report(event)
                if watch.unneeded > _MAX_UNNEEDED:
                    self._end(watch)

    def _fail_all(self, error: CallFailed) -> None:
        """No server lets us listen: tell all waiters."""
        with self._mutex:
            watchers = {watcher for watch in self._watches.values() for watcher in watch.watchers}
            for watch in list(self._watches.values()):
                self._forget(watch)
        for watcher in watchers:
            watcher.broken = error
            watcher.flag.set()

    # --- the watches; all of this with the mutex held

    def _watch(self, key: bytes, own: bool) -> Watch:
        """The watch on this key, or a new one."""
        watch = self._by_key.get((key, own))
        if watch is None:
            watch = Watch(next(self._ids), key, own)
            if self._stream is not None:
                _create(self._stream, watch)
            # Only now. If this is interrupted, no ticket must count on a watch that was never asked for.
            self._watches[watch.id] = self._by_key[key, own] = watch
        self._spare.pop(watch.id, None)
        watch.unneeded = 0
        return watch

    def _end(self, watch: Watch) -> None:
        self._forget(watch)
        if self._stream is not None:
            cancel = WatchCancelRequest(watch_id=watch.id)
            self._stream.send(WatchRequest(cancel_request=cancel))

    def _forget(self, watch: Watch) -> None:
        del self._watches[watch.id], self._by_key[watch.key, watch.own]
        self._spare.pop(watch.id, None)


def _create(stream: Stream, watch: Watch) -> None:
    filters = [WatchCreateRequest.NOPUT] if watch.own else []
    create = WatchCreateRequest(key=watch.key, watch_id=watch.id, filters=filters)
    stream.send(WatchRequest(create_request=create))


_all: WeakSet[Listener] = WeakSet()


def _before_fork() -> None:
    for listener in list(_all):
        listener.pause()


def _after_fork() -> None:
    for listener in list(_all):
        listener.resume()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_all.clear)
