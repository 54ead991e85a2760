"""From what is asked of the locks, and how fast the engine is, to how long callers wait."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from fencelock.core.durations import DRIFT, suggest_ttl
from fencelock.planning.held import Held, Longer
from fencelock.planning.names import Names
from fencelock.planning.queue import mean_wait, wait_percentile

FULL = 0.7
"""The part of the time in which a name or a partition may be busy. Beyond it, waits grow fast."""

SHORTEST_TTL = 1.0
"""Seconds. With less, a busy machine alone may lose leases."""

_MOST_PARTITIONS = 1024


class EngineSpeed(NamedTuple):
    """How fast an engine is, in seconds and per second."""

    pair: float
    """Acquire and release of a free name."""
    pair_p99: float
    hand_off: float
    """From the call of release until the next waiter has the lock."""
    pairs_per_second: float = math.inf
    """How many the whole engine can do; infinite: unknown."""
    renewals_per_second: float | None = None
    """How many leases one process can renew; None: unknown."""


class Load(NamedTuple):
    """What happens at a number of locks per second."""

    per_second: float
    busiest_per_second: float
    """Callers of the most wanted name."""
    busy: float
    """The utilisation of that name: 1 and more is a queue that grows without end."""
    mean_wait: float
    p99_wait: float
    mean_wait_anywhere: float
    """Of all callers, whatever name they want."""
    names_without_end: int
    """Names whose queue grows without end."""
    held: float
    """How many locks are held at a moment, on average."""
    waiting: float
    """How many callers wait at a moment, on average."""
    partition_busy: float | None
    """The utilisation of the busiest partition; None: unknown."""
    partitions_needed: int | None
    """None: unknown, or no number is enough."""


@dataclass(frozen=True)
class Model:
    """Names that are locked, and the engine that does it."""

    names: Names
    held: Held
    engine: EngineSpeed
    partitions: int = 1

    def at(self, per_second: float) -> Load:
        """What happens at this many locks per second."""
        used = self._partition_busy(per_second)
        delay = self._delay(used)
        served = self._served(delay)
        entry = self.engine.pair / 2 + delay
        busiest = per_second * self.names.busiest
        anywhere = entry + sum(
            group.names * group.share * mean_wait(per_second * group.share, served)
            for group in self.names.groups
        )
        return Load(
            per_second=per_second,
            busiest_per_second=busiest,
            busy=busiest * served.mean,
            mean_wait=entry + mean_wait(busiest, served),
            p99_wait=entry + wait_percentile(busiest, served),
            mean_wait_anywhere=anywhere,
            names_without_end=sum(
                group.names
                for group in self.names.groups
                if per_second * group.share * served.mean >= 1
            ),
            held=self._held_at(per_second),
            waiting=per_second * anywhere,
            partition_busy=None if math.isinf(self.engine.pairs_per_second) else used,
            partitions_needed=self.partitions_needed(per_second),
        )

    def _served(self, delay: float = 0.0) -> Held:
        """For how long a caller keeps the next one waiting."""
        return Longer(self.held, self.engine.hand_off + delay)

    def _partition_busy(self, per_second: float) -> float:
        return per_second * self.names.of_partition(self.partitions) / self.engine.pairs_per_second

    def _delay(self, busy: float) -> float:
        """How long a request waits for the other requests of a partition: M/M/1, two requests per pair."""
        if busy >= 1:
            return math.inf
        return busy / (1 - busy) / 2 / self.engine.pairs_per_second

    def _held_at(self, per_second: float) -> float:
        most = 1 / self._served().mean  # a queue without end is served no faster than this
        served = sum(
            group.names * min(per_second * group.share, most) for group in self.names.groups
        )
        return served * self.held.mean

    @property
    def name_limit(self) -> float:
        """Locks per second, of all names, that are too many for the most wanted one on any engine."""
        return 1 / (self.names.busiest * self._served().mean)

    @property
    def engine_limit(self) -> float:
        """Locks per second that the busiest partition can't do any more; infinite: unknown."""
        return self.engine.pairs_per_second / self.names.of_partition(self.partitions)

    @property
    def limit(self) -> float:
        """Locks per second from which something is overloaded.

        It is less than both limits, because a busy engine slows down the hand-offs of every name.
        """
        fine, too_many = 0.0, min(self.name_limit, self.engine_limit)
        for _ in range(40):
            middle = (fine + too_many) / 2
            served = self._served(self._delay(self._partition_busy(middle)))
            if middle * self.names.busiest * served.mean < 1:
                fine = middle
            else:
                too_many = middle
        return fine

    def partitions_needed(self, per_second: float) -> int | None:
        """So many that none is busier than `FULL`. None: unknown, or no number is enough."""
        allowed = self.engine.pairs_per_second * FULL / per_second
        if math.isinf(allowed):
            return None
        counts = range(1, _MOST_PARTITIONS + 1)
        return next((n for n in counts if self.names.of_partition(n) <= allowed), None)

    def finer(self, per_second: float) -> int:
        """How many names the most wanted one should become, so that none is busier than `FULL`."""
        return max(1, math.ceil(per_second / self.name_limit / FULL))


def shortest_ttl(operation: float, latency: float) -> float:
    """The formula of `suggest_ttl`, with the drift that the library assumes; at least a second."""
    drift = DRIFT * (operation + latency)
    return max(SHORTEST_TTL, suggest_ttl(operation, latency, drift))
