"""Worker processes: they run functions for the main process, and take turns on a lock."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from benchmarks.adapters.contract import AnyTurns
from benchmarks.series import Series, Turn, Window
from benchmarks.turns import Contenders, Diary, Pace, gather

_PATIENCE_SECONDS = 60

_numbers = itertools.count()


class Crew:
    """Processes that start once and serve all rounds of all contestants."""

    def __init__(self, size: int) -> None:
        # Forked from a process that has no connections and has imported the slow modules.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["benchmarks.preload"])
        self._workers = [self._hire() for _ in range(size)]

    def _hire(self) -> tuple[BaseProcess, Connection]:
        here, there = self._context.Pipe()
        worker = self._context.Process(target=_serve, args=(there,), daemon=True)
        worker.start()
        there.close()
        return worker, here

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for place in range(len(self._workers)):
            self.kill(place)

    def pid(self, place: int) -> int:
        pid = self._workers[place][0].pid
        assert pid is not None
        return pid

    def kill(self, place: int) -> None:
        """Kill a worker with SIGKILL: it releases nothing."""
        worker, line = self._workers[place]
        worker.kill()
        worker.join()
        line.close()

    def replace(self, place: int) -> None:
        self.kill(place)
        self._workers[place] = self._hire()

    def call(
        self, function: Callable[..., Any], per_worker: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Call a function in several workers at the same time, one worker per tuple of arguments."""
        for place, arguments in enumerate(per_worker):
            self.begin(place, function, *arguments)
        try:
            return [self.answer(place) for place in range(len(per_worker))]
        except BaseException:  # the state of the other workers is unknown
            for place in range(len(per_worker)):
                self.replace(place)
            raise

    def begin(self, place: int, function: Callable[..., Any], *arguments: Any) -> None:
        self._workers[place][1].send((function, arguments))

    def answer(self, place: int, patience: float = _PATIENCE_SECONDS) -> Any:
        line = self._workers[place][1]
        if not line.poll(patience):
            raise TimeoutError("a worker does not answer: who holds the lock?")
        fine, answer = line.recv()
        if not fine:
            raise RuntimeError(answer)
        return answer

    def compete(
        self,
        adapter: type[AnyTurns],
        url: str,
        name: str,
        size: int,
        pace: Pace,
        *,
        each: int = 1,
    ) -> Series:
        """Let `size` contenders, `each` of them in a process, connect to a lock and take turns on it."""
        self.connect(adapter, url, name, size, each=each)
        return self.take_turns(size, pace, each=each)

    def connect(
        self, adapter: type[AnyTurns], url: str, name: str, size: int, *, each: int = 1
    ) -> str:
        """Let `size` contenders connect to a lock, and return its full name."""
        # A new name each time: rivals use the same key differently, and may have left something behind.
        own = f"{name}-{adapter.__name__}-{next(_numbers)}"
        self.call(_connect, [(adapter, url, own, taken, size) for taken in _shared_out(size, each)])
        adapter.kick_off(url, own)
        return own

    def take_turns(self, size: int, pace: Pace, *, each: int = 1) -> Series:
        """Let the connected contenders take turns for a while."""
        start = (
            time.monotonic_ns() + 20_000_000 + size * 200_000
        )  # all threads have started by then
        window = Window(start, start + round(pace.seconds * 1e9))
        shares = _shared_out(size, each)
        diaries: list[Diary] = []
        for place, part in enumerate(self.call(_take_turns, [(window, pace)] * len(shares))):
            diaries += part
            if any(diary.asking_since for diary in part):  # it may wait for ever
                self.replace(place)
        return _series(diaries, window)


def _shared_out(size: int, each: int) -> list[range]:
    return [range(first, min(first + each, size)) for first in range(0, size, each)]


def _series(diaries: list[Diary], window: Window) -> Series:
    now = time.monotonic_ns()
    return Series(
        (
            Turn(acquired, releasing, asked, seat)
            for seat, diary in enumerate(diaries)
            for asked, acquired, releasing in diary.turns
        ),
        len(diaries),
        window,
        [now - diary.asking_since for diary in diaries if diary.asking_since],
        [error for diary in diaries for error in diary.errors],
    )


# --- the code that runs in the worker

_contenders: Contenders | None = None


def _serve(line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    # Drop the logs of the libraries. Thousands of threads of python-redis-lock end with an exception.
    logging.getLogger().addHandler(logging.NullHandler())
    threading.excepthook = lambda _: None
    while True:
        try:
            function, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = True, function(*arguments)
        except Exception as error:  # as text, because not every error can be pickled
            answer = False, f"{type(error).__name__}: {error}"
        line.send(answer)


def _connect(
    adapter: type[AnyTurns], url: str, name: str, taken: Sequence[int], seats: int
) -> None:
    global _contenders
    if _contenders is not None:
        _contenders.close()
    _contenders = None
    _contenders = gather(adapter, url, name, taken, seats)


def _take_turns(window: Window, pace: Pace) -> list[Diary]:
    assert _contenders is not None
    return _contenders.run(window, pace)
