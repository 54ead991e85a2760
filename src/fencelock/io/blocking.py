"""The blocking world: leaves block the thread, coroutines never suspend."""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, TypeVar

from fencelock.io import clock
from fencelock.io.contract import IO, Event, Task
from fencelock.io.process import Origin

T = TypeVar("T")


@types.coroutine
def _runner() -> Generator[Any, Any, None]:
    """Runs one coroutine after the other, and answers with what each returns, in a tuple.

    By itself a coroutine returns by an exception, which takes longer than all the rest of its life.
    """
    coroutine = yield
    while True:
        coroutine = yield ((yield from coroutine),)


_idle: list[Generator[Any, Any, None]] = []
"""As many as ever ran at once, in threads or within each other; one that raises an error is gone."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose leaves block: it ends in one step, for a fraction of a microsecond."""
    try:
        runner = _idle.pop()
    except IndexError:
        runner = _runner()
        next(runner)
    answer = runner.send(coroutine)
    if type(answer) is not tuple:
        runner.close()
        raise RuntimeError(
            "a coroutine suspended in a blocking program: it awaited an asyncio object"
        )
    _idle.append(runner)
    result: T = answer[0]
    return result


class _Event:
    def __init__(self) -> None:
        self._event = threading.Event()
        self.set = self._event.set
        self.clear = self._event.clear
        self.is_set = self._event.is_set

    async def wait(self, timeout: float | None = None) -> bool:
        # threading refuses to wait for longer than this; nobody waits that long between two looks.
        longest = threading.TIMEOUT_MAX
        return self._event.wait(None if timeout is None else min(max(timeout, 0), longest))


class _Thread:
    def __init__(self, coroutine: Coroutine[Any, Any, None], name: str) -> None:
        self._thread = threading.Thread(target=run, args=(coroutine,), name=name, daemon=True)
        self._thread.start()

    async def join(self) -> None:
        if self._thread is not threading.current_thread():
            self._thread.join()


class BlockingIO(IO):
    """Threads, and calls that return when they are done."""

    blocking = True

    def __init__(self) -> None:
        self.random = Random()
        # Not methods but what they would call: one call less, each time, on the hot path.
        self.now = clock.now  # type: ignore[method-assign]
        self.caller = threading.current_thread  # type: ignore[method-assign]
        self.verify = Origin().verify  # type: ignore[method-assign]

    def now(self) -> float: ...  # type: ignore[empty-body]

    def event(self) -> Event:
        return _Event()

    def spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task:
        return _Thread(coroutine, name)

    async def call(self, function: Callable[..., T], *args: Any) -> T:
        return function(*args)

    async def shield(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return await coroutine

    def caller(self) -> object: ...

    def verify(self) -> None: ...

    async def close(self) -> None:
        pass
