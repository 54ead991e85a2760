"""A shelter from signals: calls into libraries whose locks an interruption would leave taken for ever.

Python runs signal handlers in the main thread, between any two steps of Python code. If a handler raises, as
Ctrl-C does, while a library holds a lock of its own, that lock is never released, and all threads that need
it hang. No handler runs in any other thread. So the main thread lets another thread make such calls, and
waits for the result in a way that an interruption can't break.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

_IDLE = 10.0
"""Seconds without work after which a thread ends."""


def sheltered(timeout: float, function: Callable[..., T], *args: Any) -> T:
    """Call a function where no signal handler runs: here, unless this is the main thread.

    If the main thread is interrupted, the call goes on, and its result is dropped. `TimeoutError` if the call
    takes longer than it possibly can.
    """
    if threading.get_ident() != threading.main_thread().ident:
        return function(*args)
    return aside(timeout, function, *args)


def aside(timeout: float, function: Callable[..., T], *args: Any) -> T:
    """Call a function in another thread, and wait `timeout` seconds for it: `TimeoutError` if it hangs."""
    if sys.is_finalizing():  # the other threads have ended
        return function(*args)
    job = _Job(function, args)
    try:
        helper = _idle.pop()
    except IndexError:
        try:
            helper = _Helper()
        except RuntimeError:  # when the program ends there are no new threads
            return function(*args)
    helper.take(job)
    if not job.done.acquire(True, timeout):
        raise TimeoutError(f"{function} did not return within {timeout:g} s")
    try:
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result
    finally:
        del job  # its error knows this frame


class _Job:
    """A call, what came of it, and a lock that is free once it is done."""

    __slots__ = ("args", "done", "error", "function", "result")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.function = function
        self.args = args
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()


class _Helper:
    """A thread that makes one call after the other.

    Bare locks, and lists that change in one step: nothing here can be left half done by an interruption.
    """

    def __init__(self) -> None:
        self._job: _Job | None = None
        self._call = threading.Lock()
        self._call.acquire()
        threading.Thread(target=self._run, name="fencelock-calls", daemon=True).start()

    def take(self, job: _Job) -> None:
        self._job = job
        self._call.release()

    def _run(self) -> None:
        missed = 0
        while missed < 2:
            if self._call.acquire(True, _IDLE):
                missed = 0
                if not self._work():
                    return
                continue
            try:
                _idle.remove(self)
            except ValueError:
                # Somebody has just taken this one. If no job comes, that one was interrupted before.
                missed += 1
            else:
                return

    def _work(self) -> bool:
        """Make the call; False if this thread is not needed any more."""
        job, self._job = self._job, None
        assert job is not None
        try:
            job.result = job.function(*job.args)
        except BaseException as error:
            job.error = error
        spare = bool(_idle)
        if not spare:
            _idle.append(self)  # first: the waiting caller may come with its next call at once
        job.done.release()
        return not spare


_idle: list[_Helper] = []
"""Mostly one. More are needed if the main thread is interrupted and calls again before its last call ends."""

os.register_at_fork(after_in_child=_idle.clear)
