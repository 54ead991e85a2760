"""Rates: what does a permit cost that is free, and does that grow with the permits that are out?"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.rates import FencelockRate
from benchmarks.adapters.rivals.limits import LimitsMovingWindow
from benchmarks.adapters.rivals.pyrate_limiter import PyrateLimiter
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.scenarios.redis_pair import one_core
from benchmarks.setting import Setting, scenario

CONTESTANTS = (FencelockRate, LimitsMovingWindow, PyrateLimiter)


@scenario("rates")
def rates(setting: Setting) -> Iterator[Table]:
    """In every round each contestant takes some more permits of its own rate, and none expires."""
    url, rounds, acquires = setting.redis.url, setting.rounds(25, 5), setting.rounds(500, 200)
    for where in ("one core", "free cores"):
        notes: list[str] = []
        if where == "one core":
            with one_core(setting.redis.pid):
                samples = measure_pairs(CONTESTANTS, url, notes, rounds=rounds, pairs=acquires)
        else:
            samples = measure_pairs(CONTESTANTS, url, notes, rounds=rounds, pairs=acquires)
        yield Table(
            f"Redis, a permit of a rate, sync, {where}", "µs", "lower", samples, notes=notes
        )
