"""Cut work short on purpose: interrupt it at its k-th step, or cancel it at its k-th await."""

from __future__ import annotations

import asyncio
import dis
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import fencelock

PACKAGE = str(Path(fencelock.__file__).parent)

# Python itself makes sure that no signal comes between __enter__ and the body.
BEYOND_US = {("return", "__enter__")}


def ctrl_c() -> None:
    raise KeyboardInterrupt


class InterruptAt:
    """Runs a signal handler at the k-th step of Fencelock's own code in this thread.

    A step is the beginning or the end of a call. There Python checks whether a signal has arrived.
    """

    def __init__(
        self, k: int, handler: Callable[[], None] = ctrl_c, *, lines: bool = False
    ) -> None:
        self._left = k
        self._handler = handler
        self._hook = self._trace  # keep a reference: Python itself does not
        self.where: str | None = None

    def __call__(self, act: Callable[[], Any]) -> None:
        before = sys.gettrace()
        self.arm()
        try:
            act()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
            self._left = sys.maxsize  # a frame that is still alive may call this hook again

    def arm(self) -> None:
        """Begin to count. Frames that are already running are not traced."""
        sys.settrace(self._hook)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if self.where is not None or not code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_lines = False
        if event != "exception" and (event, code.co_name) not in BEYOND_US:
            self._left -= 1
            if self._left < 0:
                self.where = f"{event} of {code.co_qualname}, line {frame.f_lineno}"
                self._handler()
                return None
        return self._hook


_OPEN = {dis.opmap.get(name) for name in ("CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD", "RESUME")}
"""After these opcodes Python checks for signals, except when a `with` has just taken a lock."""


def interrupted(moment: int, function: Callable[[], object], *files: str) -> bool:
    """Call a function, with a KeyboardInterrupt at one moment in code whose file name matches.

    Returns False if there was no such moment and the function finished.
    """
    moments = count()
    last: dict[FrameType, int] = {}

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        if not any(part in frame.f_code.co_filename for part in files):
            return trace
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = last.get(frame)
            last[frame] = frame.f_code.co_code[frame.f_lasti]
            if before in _OPEN and next(moments) == moment:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    tracing = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 reads this only at the next line
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
    return False


class CancelledAt(Awaitable[Any]):
    """Runs a coroutine in the current task and cancels the task at the k-th await that suspends."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], k: int) -> None:
        self._coroutine = coroutine
        self._k = k
        self.reached = False

    def __await__(self) -> Generator[Any, None, Any]:
        steps = self._coroutine.__await__()
        act: Callable[[], Any] = lambda: steps.send(None)  # noqa: E731 - changes with each step
        for number in count():
            try:
                suspended_on = act()
            except StopIteration as stop:
                return stop.value
            if number == self._k:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()  # takes effect at the yield below
            try:
                yield suspended_on
            except BaseException as error:
                act = lambda error=error: steps.throw(error)  # type: ignore[misc]  # noqa: E731
            else:
                act = lambda: steps.send(None)  # noqa: E731
