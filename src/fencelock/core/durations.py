"""The durations that a caller can give: ttl, timeout and others. Inside, all are seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from datetime import timedelta

Duration: TypeAlias = "float | timedelta"
"""What a caller may give: a number of seconds, or a `timedelta`."""

DEFAULT_TTL = 30.0
MIN_TTL = 0.1
MAX_TTL = 30 * 86_400.0
MAX_KEEP = 366 * 86_400.0
"""How long a note can be kept at most."""

# A lease ends for its holder a little before it ends at the engine.
DRIFT = 0.01
"""The part of a ttl by which the two clocks may disagree, because they run at different rates."""
MARGIN = 0.002
"""The time between the check that a lease is held and the use of the answer."""


def check_ttl(ttl: Duration) -> float:
    """Return the ttl in seconds, or raise an error that says what a ttl must be."""
    if type(ttl) is not float:
        ttl = _number("ttl", ttl)
    if not MIN_TTL <= ttl <= MAX_TTL:
        raise ValueError(
            f"ttl must be between {MIN_TTL} and {MAX_TTL:.0f} seconds, not {ttl}: "
            "it is how long a lease lives unless renewed; suggest_ttl() can choose one"
        )
    return ttl


def check_timeout(timeout: Duration | None) -> float:
    """Return the timeout in seconds, infinite for None, or raise an error that says what it must be."""
    if timeout is None:
        return math.inf
    timeout = _number("timeout", timeout)
    if not 0 <= timeout < math.inf:
        raise ValueError(
            f"timeout must be zero or more seconds, not {timeout}: 0 does not wait, None waits for ever"
        )
    return timeout


def check_positive(what: str, duration: Duration) -> float:
    """Return a duration in seconds, or raise an error that says that it must be positive and finite."""
    seconds = _number(what, duration)
    if not 0 < seconds < math.inf:
        raise ValueError(f"{what} must be more than zero seconds, not {seconds}")
    return seconds


def check_per(per: Duration) -> float:
    """Return the span of a rate in seconds, or raise an error that says what it must be."""
    per = _number("per", per)
    if not MIN_TTL <= per <= MAX_TTL:
        raise ValueError(
            f"per must be between {MIN_TTL} and {MAX_TTL:.0f} seconds, not {per}: "
            "it is the time in which so many permits are given, e.g. rate(name, 100, per=60)"
        )
    return per


def check_keep(what: str, keep: Duration) -> float:
    """Return how long to keep a note in seconds, or raise an error that says what it must be."""
    keep = _number(what, keep)
    if not MIN_TTL <= keep <= MAX_KEEP:
        raise ValueError(f"{what} must be between {MIN_TTL} and {MAX_KEEP:.0f} seconds, not {keep}")
    return keep


def _number(what: str, value: Duration) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        from datetime import timedelta  # most programs give numbers

        if isinstance(value, timedelta):
            return value.total_seconds()
        advice = ": try_acquire() does not wait" if value is False and what == "timeout" else ""
        raise TypeError(
            f"{what} must be a number of seconds or a timedelta, not {type(value).__name__}{advice}"
        )
    try:
        return float(value)
    except OverflowError:  # the int is too big for a float
        return math.inf if value > 0 else -math.inf


UNITS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
"""The longer ones first: "ms" ends in "s"."""


def seconds(text: str) -> float:
    """Seconds from a number with or without a unit: 90, 200ms, 15m, 1h, 1d."""
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        return float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a duration: give seconds, or for example 200ms, 15m, 1h, 1d"
        ) from None


def deadline(sent: float, ttl: float) -> float:
    """The moment until which a holder may trust its lease, on its own clock.

    The holder reads `sent` from that clock *before* it sends the request. The engine starts to count
    later, so the holder stops before the engine does, however long the request and the reply take.
    """
    return sent + ttl * (1 - DRIFT) - MARGIN


def suggest_ttl(operation: Duration, latency: Duration, drift: Duration) -> float:
    """A ttl for a lock around an operation: twice the sum of what can make it late, in seconds.

    A lease must outlive the slowest normal run of the work that it protects (`operation`), the slowest
    request to the engine (`latency`), and the difference between two clocks in that time (`drift`).
    Twice the sum leaves room for one retry of everything. Longer is not safer: after a holder dies,
    all waiters wait for the rest of its ttl.
    """
    total = 0.0
    for what, value in {"operation": operation, "latency": latency, "drift": drift}.items():
        part = _number(what, value)
        if not 0 <= part < math.inf:
            raise ValueError(f"{what} must be zero or more seconds, not {value}")
        total += part
    return 2 * total
