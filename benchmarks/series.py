"""The turns that several contenders took on one lock, and statistics about them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Turn(NamedTuple):
    """One turn, in ns on a clock that all processes share."""

    acquired: int
    releasing: int
    asked: int
    seat: int


class Window(NamedTuple):
    """The time in which turns count."""

    start: int
    end: int

    @property
    def seconds(self) -> float:
        return (self.end - self.start) / 1e9


class Series:
    """The turns of a window. `in_vain` has the waiting times of contenders that never got their turn."""

    def __init__(
        self,
        turns: Iterable[Turn],
        size: int,
        window: Window,
        in_vain: Iterable[int] = (),
        errors: Iterable[str] = (),
    ) -> None:
        everything = sorted(turns)
        self.turns = [turn for turn in everything if turn.acquired <= window.end]
        self.with_late_ones = len(everything)
        """How many turns there were, including turns after the window."""
        self.errors = list(errors)
        self._size = size
        self._window = window
        asked = [turn.acquired - turn.asked for turn in everything if turn.asked <= window.end]
        self._waits = sorted([*asked, *in_vain])
        self._hand_offs = [
            (turn, following)
            for turn, following in itertools.pairwise(self.turns)
            if turn.seat != following.seat
        ]

    def per_second(self) -> float:
        """How often the lock went from one contender to another."""
        return len(self._hand_offs) / self._window.seconds

    def latency_us(self) -> float:
        """The median time from the call of release until the next holder runs."""
        if not self._hand_offs:
            return float("inf")
        waits = [following.acquired - turn.releasing for turn, following in self._hand_offs]
        return statistics.median(waits) / 1e3

    def wait_ms(self, percent: float) -> float:
        """The percentile of the waiting time."""
        if not self._waits:
            return float("inf")
        rank = min(len(self._waits) - 1, int(len(self._waits) * percent / 100))
        return self._waits[rank] / 1e6

    def fairness(self) -> float:
        """Jain's index of the turns per contender: 1 if all got equally many, 1/n if one got all."""
        shares = self._shares()
        total = sum(shares)
        return total**2 / (self._size * sum(share * share for share in shares)) if total else 0.0

    def unserved(self) -> int:
        """How many contenders got no turn at all."""
        return self._shares().count(0)

    def overlaps(self) -> int:
        """How many turns began before another had ended: there should be none."""
        found, until = 0, 0
        for turn in self.turns:
            found += turn.acquired < until
            until = max(until, turn.releasing)
        return found

    def _shares(self) -> list[int]:
        shares = [0] * self._size
        for turn in self.turns:
            shares[turn.seat] += 1
        return shares
