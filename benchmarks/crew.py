"""Worker processes: they do what they are told, and take turns on a lock."""

from __future__ import annotations

import itertools
import multiprocessing
import signal
import statistics
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

from benchmarks.adapters.contract import Turns

_PATIENCE_SECONDS = 120


class Crew:
    """Processes that are started once and used for all rounds, of all contestants."""

    def __init__(self, size: int) -> None:
        # Forked from a process without connections, which has imported what takes long.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.scenarios"])
        self._lines: list[Connection] = []
        self._workers = []
        for _ in range(size):
            here, there = context.Pipe()
            worker = context.Process(target=_serve, args=(there,), daemon=True)
            worker.start()
            there.close()
            self._workers.append(worker)
            self._lines.append(here)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            worker.join()

    def call(
        self, function: Callable[..., Any], per_worker: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Let as many workers as there are arguments call a function at the same time."""
        self.begin(function, per_worker)
        return self.answers(len(per_worker))

    def begin(self, function: Callable[..., Any], per_worker: Sequence[tuple[Any, ...]]) -> None:
        for line, arguments in zip(self._lines, per_worker, strict=False):
            line.send((function, arguments))

    def answers(self, size: int) -> list[Any]:
        answers = []
        for line in self._lines[:size]:
            if not line.poll(_PATIENCE_SECONDS):
                raise TimeoutError("a worker does not answer: who holds the lock?")
            answer = line.recv()
            if isinstance(answer, BaseException):
                raise answer
            answers.append(answer)
        return answers

    def compete(self, adapter: type[Turns], url: str, name: str, size: int, pace: Pace) -> Series:
        """Let `size` workers connect to a lock and take turns on it."""
        self.connect(adapter, url, name, size)
        return self.take_turns(size, pace)

    def connect(self, adapter: type[Turns], url: str, name: str, size: int) -> str:
        """Let `size` workers connect to a lock, of which the full name is returned."""
        own = f"{name}-{adapter.__name__}"  # rivals mean different things by the same key
        self.call(_connect, [(adapter, url, own, seat, size) for seat in range(size)])
        adapter.kick_off(url, own)
        return own

    def take_turns(self, size: int, pace: Pace) -> Series:
        """Let `size` workers take turns for a while."""
        start = time.monotonic_ns() + 20_000_000
        parts = self.call(_take_turns, [(start, pace)] * size)
        turns = (
            Turn(acquired, releasing, seat)
            for seat, part in enumerate(parts)
            for acquired, releasing in part
        )
        return Series(sorted(turns), size)


class Pace(NamedTuple):
    """How workers take turns: for how long, and how long each holds the lock and rests after it."""

    seconds: float
    hold: float = 0
    rest: float = 0


def calm(seconds: float) -> Pace:
    """A pace at which the next one is asleep when the release comes, and has a core to itself then."""
    return Pace(seconds, hold=0.001, rest=0.0003)


class Turn(NamedTuple):
    """One turn, in ns on a clock that all processes share."""

    acquired: int
    releasing: int
    seat: int


class Series:
    """The turns that several processes took on one lock."""

    def __init__(self, turns: list[Turn], size: int) -> None:
        self.turns = turns
        self._size = size
        for turn, following in itertools.pairwise(turns):
            assert turn.releasing <= following.acquired, "two held it: that was not a lock"
        self._hand_offs = [
            (turn, following)
            for turn, following in itertools.pairwise(turns)
            if turn.seat != following.seat
        ]

    def per_second(self) -> float:
        """How often the lock went from one process to another."""
        took = self.turns[-1].releasing - self.turns[0].acquired
        return len(self._hand_offs) / took * 1e9

    def latency_us(self) -> float:
        """From the call of release to the next holder running: the median."""
        if not self._hand_offs:
            return float("inf")
        waits = [following.acquired - turn.releasing for turn, following in self._hand_offs]
        return statistics.median(waits) / 1e3

    def fairness(self) -> float:
        """Jain's index of the turns per process: 1 if all got as many, 1/n if one got all."""
        shares = [0] * self._size
        for turn in self.turns:
            shares[turn.seat] += 1
        return sum(shares) ** 2 / (self._size * sum(share * share for share in shares))


# --- what runs in the worker

_turns: Turns | None = None


def _serve(line: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the main process's business
    while True:
        try:
            function, arguments = line.recv()
        except EOFError:
            return
        try:
            answer = function(*arguments)
        except Exception as error:
            answer = error
        line.send(answer)


def _connect(adapter: type[Turns], url: str, name: str, seat: int, seats: int) -> None:
    global _turns
    if _turns is not None:
        _turns.close()
    _turns = adapter(url, name, seat, seats)


def _take_turns(start: int, pace: Pace) -> list[tuple[int, int]]:
    turns, clock = _turns, time.monotonic_ns
    assert turns is not None
    end = start + pace.seconds * 1e9
    times: list[tuple[int, int]] = []
    _sleep((start - clock()) / 1e9)
    acquired = 0
    while acquired < end:  # everybody has one turn after the end, so nobody waits for one who left
        turns.acquire()
        acquired = clock()
        _sleep(pace.hold)
        releasing = clock()
        turns.release()
        times.append((acquired, releasing))
        _sleep(pace.rest)
    return times


def _sleep(seconds: float) -> None:
    if seconds > 0:
        time.sleep(seconds)


def wait_once(_: object = None) -> float:
    """The CPU seconds that it took this process to wait for one turn."""
    assert _turns is not None
    before = time.process_time()
    _turns.acquire()
    used = time.process_time() - before
    _turns.release()
    return used
