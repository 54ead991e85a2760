"""Numbers for a report: round trips, clocks, and the shortest sensible ttl."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fencelock.core.durations import suggest_ttl
from fencelock.engines.diagnosis import Server

TRIPS_PER_TTL = 30
"""How many of the slowest round trips must fit into a ttl: ten into the time between two renewals."""

_FLOOR = 1.0
"""Below one second a busy machine alone may cost leases, however fast the server is."""


class Latency(NamedTuple):
    """Round trips to the slowest server that requests for locks go to, in seconds."""

    p50: float
    p99: float
    requests: int
    """How many were measured. With fewer than 100, p99 is the slowest of them."""


class ClockOffset(NamedTuple):
    """How far the clock of a server is ahead of ours, in seconds."""

    where: str
    offset: float
    uncertainty: float
    stepped: bool


def latency_of(servers: Sequence[Server]) -> Latency | None:
    """The round trips to the slowest server that serves. None if none were measured."""
    found = [
        Latency(_percentile(trips, 50), _percentile(trips, 99), len(trips))
        for server in servers
        if server.serves and (trips := sorted(server.round_trips))
    ]
    return max(found, key=lambda latency: latency.p99, default=None)


def clocks_of(servers: Sequence[Server]) -> tuple[ClockOffset, ...]:
    """The clocks that could be asked."""
    return tuple(
        ClockOffset(server.where, *server.clock) for server in servers if server.clock is not None
    )


def shortest_ttl(servers: Sequence[Server]) -> float:
    """The shortest ttl that makes sense from here, in seconds; see docs/choosing-a-ttl.md.

    The tries of a renewal must fit into it, and twice what makes a request late. What a clock is off counts
    as drift: after a failover the lease may end by another clock.
    """
    latency = latency_of(servers)
    slowest = latency.p99 if latency else 0.0
    drift = max((abs(clock.offset) for clock in clocks_of(servers)), default=0.0)
    needed = max(_FLOOR, TRIPS_PER_TTL * slowest, suggest_ttl(0.0, slowest, drift))
    return _rounded_up(needed)


def in_words(seconds: float, *, sign: bool = False) -> str:
    """A short time with a unit that suits it: 0.08 ms, 1.2 s."""
    size = abs(seconds)
    plus = "+" if sign and seconds >= 0 else ""
    if size >= 1:
        return f"{plus}{seconds:.3g} s" if size < 1000 else f"{plus}{seconds:.0f} s"
    digits = 0 if size >= 0.1 else 1 if size >= 0.001 else 2
    milliseconds = round(seconds * 1000, digits)
    return f"{plus}{milliseconds:.{digits}f} ms" if milliseconds else "0 ms"


def _percentile(ordered: Sequence[float], percent: int) -> float:
    return ordered[math.ceil(len(ordered) * percent / 100) - 1]


def _rounded_up(seconds: float) -> float:
    """To two digits, because more would only seem exact."""
    unit = 10.0 ** (math.floor(math.log10(seconds)) - 1)
    return round(math.ceil(round(seconds / unit, 6)) * unit, 6)
