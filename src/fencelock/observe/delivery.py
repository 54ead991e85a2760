"""How events reach an observer that may be slow: in a thread of its own."""

from __future__ import annotations

import os
import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue

from fencelock.core.durations import Duration, check_timeout
from fencelock.observe.events import Event
from fencelock.observe.observer import Observer, busy, complain, log

_LIMIT = 10_000
"""How many events may wait for an observer. Later ones are dropped, so that memory stays bounded."""

_IDLE = 5.0
"""Seconds without an event after which the thread ends; the next event starts it again."""


class Delivery:
    """The events for one observer, in order. A slow observer delays nobody else."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self._overrun = False
        self.reset()

    def reset(self) -> None:
        """Start afresh in a forked child, which has no threads."""
        # Unlike other queues, this kind may be used in signal handlers and finalizers.
        self._queue: SimpleQueue[Event | threading.Lock] = SimpleQueue()
        self._mutex = threading.RLock()
        self._thread: threading.Thread | None = None

    def put(self, event: Event) -> None:
        """Tell the observer of this event soon. Never waits."""
        if self._queue.qsize() < _LIMIT:
            self._put(event)
        elif not self._overrun:
            self._overrun = True
            log.warning("the observer %r is too slow: it misses events", self.observer)

    def flush(self, timeout: float) -> bool:
        """Wait until the observer has had all events so far. False if that takes longer than `timeout`."""
        thread = self._thread
        if thread is None and self._queue.empty():
            return True
        if thread is threading.current_thread():  # an observer that waits for itself
            return False
        reached = threading.Lock()
        reached.acquire()
        self._put(reached)
        if self._thread is None:
            self._deliver_here(time.monotonic() + timeout)
        return reached.acquire(timeout=max(0.0, timeout))

    def _put(self, item: Event | threading.Lock) -> None:
        self._queue.put(item)
        if self._thread is None:
            with self._mutex:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._run, name="fencelock-observer", daemon=True
                    )
                    try:
                        self._thread.start()
                    except RuntimeError:  # too many threads, or the program ends: try again later
                        self._thread = None

    def _run(self) -> None:
        busy.now = True
        while (item := self._next()) is not None:
            self._deliver(item)

    def _deliver(self, item: Event | threading.Lock) -> None:
        if isinstance(item, Event):
            try:
                self.observer(item)
            except BaseException:  # an observer must never harm a lock
                complain(self.observer)
        else:
            item.release()

    def _deliver_here(self, until: float) -> None:
        """Do what the thread would do, if there is none. Ends at a moment of the clock."""
        before, busy.now = busy.now, True
        try:
            with suppress(Empty):
                while time.monotonic() < until:
                    self._deliver(self._queue.get_nowait())
        finally:
            busy.now = before

    def _next(self) -> Event | threading.Lock | None:
        """The next item; None if there was nothing for a while, and the thread has to end."""
        while True:
            try:
                return self._queue.get(timeout=_IDLE)
            except Empty:
                with self._mutex:
                    # First of all this: an event that comes now finds no thread, and starts another one.
                    self._thread = None
                    if self._queue.empty():
                        return None
                    self._thread = threading.current_thread()


_all: weakref.WeakValueDictionary[int, Delivery] = weakref.WeakValueDictionary()


def delivery_to(observer: Observer) -> Delivery:
    """The delivery to this observer: one, however many clients have it. The caller holds a mutex."""
    found = _all.get(id(observer))
    if found is None:
        found = _all[id(observer)] = Delivery(observer)
    return found


def flush(timeout: Duration = 1.0) -> bool:
    """Wait until every observer has heard of all that has happened. False if that takes too long."""
    until = time.monotonic() + check_timeout(timeout)
    # Each one gets its chance, even if the first one is stuck.
    flushed = [each.flush(until - time.monotonic()) for each in list(_all.values())]
    return all(flushed)


def _forked() -> None:
    busy.now = False
    for each in list(_all.values()):
        each.reset()


os.register_at_fork(after_in_child=_forked)
