"""Pairs: an acquire and a release without contention."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from benchmarks.adapters.contract import AsyncTurns, Turns
from benchmarks.rounds import Samples, interleave, left_out, median_us


def measure_pairs(
    adapters: Sequence[type[Turns]], url: str, notes: list[str], *, rounds: int, pairs: int
) -> Samples:
    """The median µs of a pair, per adapter and round. A rival that can't connect is left out, with a note."""
    with ExitStack() as opened:
        contestants: dict[str, Callable[[], float]] = {}
        for adapter in adapters:
            try:
                turns = adapter(url, f"pair-{adapter.__name__}")
            except Exception as error:
                if adapter is adapters[0]:
                    raise
                notes.append(left_out(adapter.label, error))
                continue
            opened.callback(turns.close)
            contestants[adapter.label] = _timed(turns, pairs)
        return interleave(contestants, rounds, notes, warm=True)


def _timed(turns: Turns, pairs: int) -> Callable[[], float]:
    return lambda: median_us(lambda: pair(turns), pairs)


def pair(turns: Turns) -> None:
    turns.acquire()
    turns.release()


def measure_async_pairs(
    adapters: Sequence[type[AsyncTurns]], url: str, notes: list[str], *, rounds: int, pairs: int
) -> Samples:
    """As `measure_pairs`, for asyncio, in one event loop."""
    with asyncio.Runner() as runner, ExitStack() as opened:
        contestants: dict[str, Callable[[], float]] = {}
        for adapter in adapters:
            try:
                turns = runner.run(adapter.connect(url, f"pair-{adapter.__name__}"))
            except Exception as error:
                if adapter is adapters[0]:
                    raise
                notes.append(left_out(adapter.label, error))
                continue
            opened.callback(_close, runner, turns)
            contestants[adapter.label] = _timed_async(runner, turns, pairs)
        return interleave(contestants, rounds, notes, warm=True)


def _close(runner: asyncio.Runner, turns: AsyncTurns) -> None:
    runner.run(turns.close())


def _timed_async(runner: asyncio.Runner, turns: AsyncTurns, pairs: int) -> Callable[[], float]:
    async def measure() -> float:
        clock = time.perf_counter_ns
        taken = []
        for _ in range(pairs):
            start = clock()
            await turns.acquire()
            await turns.release()
            taken.append(clock() - start)
        return statistics.median(taken) / 1e3

    return lambda: runner.run(measure())
