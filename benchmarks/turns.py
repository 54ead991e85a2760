"""What contenders do in a worker process: as threads, or as tasks of one event loop."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.adapters.contract import AnyTurns, AsyncTurns, Turns
from benchmarks.series import Window

_AFTER_AN_ERROR_SECONDS = 0.01
_TO_WARM_UP_SECONDS = 30


class Pace(NamedTuple):
    """How contenders take turns: the total time, and how long each holds the lock and rests after it."""

    seconds: float
    hold: float = 0
    rest: float = 0
    grace: float = 0.5
    """How long a contender may go on waiting when the time is over, in seconds."""


def calm(seconds: float) -> Pace:
    """A pace at which the next contender sleeps when the release comes, and then has a free core."""
    return Pace(seconds, hold=0.001, rest=0.0003)


@dataclass
class Diary:
    """What happened to one contender."""

    turns: list[tuple[int, int, int]] = field(default_factory=list)
    """For each turn: when it asked, when it had the lock, when it released it."""
    errors: list[str] = field(default_factory=list)
    asking_since: int = 0
    """Since when it waits; 0 if it does not wait."""

    def failed(self, error: Exception) -> None:
        self.errors.append(f"{type(error).__name__}: {error}")


class Contenders(ABC):
    """The contenders of one process. Each has a turn after the end, so that none waits for one that left."""

    @abstractmethod
    def run(self, window: Window, pace: Pace) -> list[Diary]:
        """Let them take turns. Returns some time after the window, even if some still wait."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


def gather(
    adapter: type[AnyTurns], url: str, name: str, taken: Sequence[int], seats: int
) -> Contenders:
    if issubclass(adapter, Turns):
        return _Threads(adapter.crowd(url, name, taken, seats))
    assert issubclass(adapter, AsyncTurns)
    return _Tasks(adapter, url, name, len(taken))


class _Threads(Contenders):
    """One thread per contender. All are ready before the first begins."""

    def __init__(self, crowd: Sequence[Turns]) -> None:
        self._crowd = crowd
        self._diaries = [Diary() for _ in crowd]
        self._ready = threading.Barrier(len(crowd) + 1)
        self._begin = threading.Event()
        self._plan: tuple[Window, Pace]
        self._threads = [
            threading.Thread(target=self._take_part, args=both, daemon=True)
            for both in zip(crowd, self._diaries, strict=True)
        ]
        for thread in self._threads:
            thread.start()
        self._ready.wait(_TO_WARM_UP_SECONDS)
        for diary in self._diaries:
            if diary.errors:
                raise RuntimeError(diary.errors[0])

    def _take_part(self, turns: Turns, diary: Diary) -> None:
        try:
            turns.warm_up()
        except Exception as error:
            diary.failed(error)
        self._ready.wait(_TO_WARM_UP_SECONDS)
        self._begin.wait()
        _take_turns(turns, *self._plan, diary)

    def run(self, window: Window, pace: Pace) -> list[Diary]:
        self._plan = window, pace
        self._begin.set()
        until = window.end / 1e9 + pace.grace
        for thread in self._threads:
            thread.join(max(0, until - time.monotonic()))
        return self._diaries

    def close(self) -> None:
        for turns in self._crowd:
            turns.close()


def _take_turns(turns: Turns, window: Window, pace: Pace, diary: Diary) -> None:
    clock, acquired = time.monotonic_ns, 0
    _sleep((window.start - clock()) / 1e9)
    while acquired <= window.end:
        diary.asking_since = asked = clock()
        try:
            turns.acquire()
            acquired = clock()
            diary.asking_since = 0
            _sleep(pace.hold)
            releasing = clock()
            turns.release()
        except Exception as error:
            diary.failed(error)
            _sleep(_AFTER_AN_ERROR_SECONDS)
            acquired = clock()
            continue
        diary.turns.append((asked, acquired, releasing))
        _sleep(pace.rest)


def _sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


class _Tasks(Contenders):
    def __init__(self, adapter: type[AsyncTurns], url: str, name: str, size: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        opened = asyncio.run_coroutine_threadsafe(self._open(adapter, url, name, size), self._loop)
        self._crowd = opened.result()

    async def _open(
        self, adapter: type[AsyncTurns], url: str, name: str, size: int
    ) -> Sequence[AsyncTurns]:
        crowd = await adapter.crowd(url, name, size)
        await asyncio.gather(*(turns.warm_up() for turns in crowd))
        return crowd

    def run(self, window: Window, pace: Pace) -> list[Diary]:
        diaries = [Diary() for _ in self._crowd]

        async def together() -> None:
            each = (_take(*both, window, pace) for both in zip(self._crowd, diaries, strict=True))
            _, waiting = await asyncio.wait(
                [asyncio.create_task(one) for one in each],
                timeout=max(0, window.end / 1e9 + pace.grace - time.monotonic()),
            )
            for task in waiting:
                task.cancel()

        asyncio.run_coroutine_threadsafe(together(), self._loop).result()
        return diaries

    def close(self) -> None:
        async def together() -> None:
            for turns in self._crowd:
                await turns.close()

        asyncio.run_coroutine_threadsafe(together(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _take(turns: AsyncTurns, diary: Diary, window: Window, pace: Pace) -> None:
    """The same for asyncio. It is written twice, so that neither version is slower because of the other."""
    clock, acquired = time.monotonic_ns, 0
    await asyncio.sleep((window.start - clock()) / 1e9)
    while acquired <= window.end:
        diary.asking_since = asked = clock()
        try:
            await turns.acquire()
            acquired = clock()
            diary.asking_since = 0
            if pace.hold:
                await asyncio.sleep(pace.hold)
            releasing = clock()
            await turns.release()
        except Exception as error:
            diary.failed(error)
            await asyncio.sleep(_AFTER_AN_ERROR_SECONDS)
            acquired = clock()
            continue
        diary.turns.append((asked, acquired, releasing))
        if pace.rest:
            await asyncio.sleep(pace.rest)
