"""The blocking world: leaves block the thread, coroutines never suspend."""

from __future__ import annotations

import functools
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

from fencelock.io import clock
from fencelock.io.contract import IO, Event, Task
from fencelock.io.process import Origin

P = ParamSpec("P")
S = TypeVar("S")
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


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """The blocking face of an async method, with its name, arguments and docstring.

    The async class has the code, and declares `self` as the base that both classes share:

        class AsyncClient(BaseClient):
            async def names(self: BaseClient, pattern: str = "*") -> list[str]: ...

        class Client(BaseClient):
            names = blocking(AsyncClient.names)
    """

    @functools.wraps(method)
    def face(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(method(self, *args, **kwargs))

    return face


class _Event:
    """A flag that no interruption can break.

    `threading.Event` has a lock, which stays taken if Ctrl-C hits the main thread at the wrong moment: after
    that, everyone hangs who sets it or waits for it. Here each sleeper has a lock of its own, and the list of
    them changes in one step.
    """

    __slots__ = ("_set", "_sleepers")

    def __init__(self) -> None:
        self._set = False
        self._sleepers: list[threading.Lock] = []

    def set(self) -> None:
        self._set = True
        for sleeper in tuple(self._sleepers):  # they leave by themselves, so nobody is forgotten
            try:
                sleeper.release()
            except RuntimeError:  # somebody else has set it as well
                continue

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    async def wait(self, timeout: float | None = None) -> bool:
        if self._set:
            return True
        sleeper = threading.Lock()
        sleeper.acquire()
        try:
            self._sleepers.append(sleeper)
            # A thread that sets it from now on sees this sleeper. Threading refuses to wait for longer than
            # its maximum, and no caller waits that long between two looks.
            seconds = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
            return self.is_set() or sleeper.acquire(True, seconds) or self.is_set()
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)


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
