"""How long a lock is held: the distributions that the model knows."""

from __future__ import annotations

import math
from random import Random
from statistics import NormalDist
from typing import NamedTuple, Protocol

_Z99 = NormalDist().inv_cdf(0.99)

MOST_UNEVEN = 10.0
"""The largest p99, divided by the mean. A lognormal distribution with nearly 15 would be absurdly uneven."""


class Held(Protocol):
    """A distribution of durations, in seconds."""

    @property
    def mean(self) -> float: ...

    @property
    def square(self) -> float:
        """The mean of the square: what waiting depends on besides the mean."""

    @property
    def p99(self) -> float: ...

    def area(self, until: float) -> float:
        """The mean of the duration, if it were cut off after `until` seconds."""

    def draw(self, random: Random) -> float: ...


class Fixed(NamedTuple):
    """Always the same."""

    mean: float

    @property
    def square(self) -> float:
        return self.mean**2

    @property
    def p99(self) -> float:
        return self.mean

    def area(self, until: float) -> float:
        return min(until, self.mean)

    def draw(self, random: Random) -> float:
        return self.mean


class Exponential(NamedTuple):
    """Mostly short, sometimes several times the mean."""

    mean: float

    @property
    def square(self) -> float:
        return 2 * self.mean**2

    @property
    def p99(self) -> float:
        return self.mean * math.log(100)

    def area(self, until: float) -> float:
        return -self.mean * math.expm1(-until / self.mean)

    def draw(self, random: Random) -> float:
        return random.expovariate(1 / self.mean)


class Lognormal(NamedTuple):
    """With this mean and this p99: what most services look like."""

    mean: float
    p99: float

    @property
    def _sigma(self) -> float:
        # The smaller root: it has the p99 on the far side of a narrow distribution, not of an absurd one.
        return _Z99 - math.sqrt(_Z99**2 - 2 * math.log(self.p99 / self.mean))

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self._sigma**2 / 2

    @property
    def square(self) -> float:
        return self.mean**2 * math.exp(self._sigma**2)

    def area(self, until: float) -> float:
        if until <= 0:
            return 0.0
        place = (math.log(until) - self._mu) / self._sigma
        return self.mean * _normal(place - self._sigma) + until * _normal(-place)

    def draw(self, random: Random) -> float:
        return random.lognormvariate(self._mu, self._sigma)


class Longer(NamedTuple):
    """Another distribution, and a fixed time on top."""

    base: Held
    extra: float

    @property
    def mean(self) -> float:
        return self.base.mean + self.extra

    @property
    def square(self) -> float:
        return self.base.square + 2 * self.base.mean * self.extra + self.extra**2

    @property
    def p99(self) -> float:
        return self.base.p99 + self.extra

    def area(self, until: float) -> float:
        return min(until, self.extra) + self.base.area(max(0.0, until - self.extra))

    def draw(self, random: Random) -> float:
        return self.base.draw(random) + self.extra


def held_for(mean: float, p99: float | None) -> Held:
    """The distribution with this mean and this p99. Without a p99 it is exponential."""
    if p99 is None:
        return Exponential(mean)
    if p99 == mean:
        return Fixed(mean)
    if not mean < p99 <= mean * MOST_UNEVEN:
        raise ValueError(
            f"the p99 of the time held must be 1 to {MOST_UNEVEN:.0f} times its mean, not "
            f"{p99 / mean:.3g} times: if it is really so uneven, look at the long ones alone"
        )
    return Lognormal(mean, p99)


def _normal(place: float) -> float:
    return math.erfc(-place / math.sqrt(2)) / 2
