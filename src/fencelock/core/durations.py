"""Times a caller may ask for: how long a lease lives (ttl), how long to wait (timeout)."""

from __future__ import annotations

import math

DEFAULT_TTL = 30.0
MIN_TTL = 0.1
MAX_TTL = 30 * 86_400.0
MAX_KEEP = 366 * 86_400.0

# A lease ends for its holder a little before it ends at the engine: the two clocks may run at
# different speeds (drift), and the answer to "is it still mine?" is used a moment after it is given.
DRIFT = 0.01
MARGIN = 0.002


def check_ttl(ttl: float) -> float:
    """The ttl as a float, or an error that says what a ttl must be."""
    if type(ttl) is not float:
        ttl = _number("ttl", ttl)
    if not MIN_TTL <= ttl <= MAX_TTL:
        raise ValueError(
            f"ttl must be between {MIN_TTL} and {MAX_TTL:.0f} seconds, not {ttl}: "
            "it is how long a lease lives unless renewed; suggest_ttl() can choose one"
        )
    return ttl


def check_timeout(timeout: float | None) -> float:
    """The timeout as a float, infinite for None, or an error that says what a timeout must be."""
    if timeout is None:
        return math.inf
    timeout = _number("timeout", timeout)
    if not 0 <= timeout < math.inf:
        raise ValueError(
            f"timeout must be zero or more seconds, not {timeout}: 0 does not wait, None waits for ever"
        )
    return timeout


def check_patience(patience: float) -> float:
    """The patience of a transaction as a float, or an error that says what it must be."""
    patience = _number("patience", patience)
    if not 0 < patience < math.inf:
        raise ValueError(f"patience must be more than zero seconds, not {patience}")
    return patience


def check_keep(what: str, keep: float) -> float:
    """How long to remember something as a float, or an error that says what that must be."""
    keep = _number(what, keep)
    if not MIN_TTL <= keep <= MAX_KEEP:
        raise ValueError(f"{what} must be between {MIN_TTL} and {MAX_KEEP:.0f} seconds, not {keep}")
    return keep


def _number(what: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} must be a number of seconds, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:  # an int beyond all floats
        return math.inf if value > 0 else -math.inf


def deadline(sent: float, ttl: float) -> float:
    """Until when a holder may trust a lease whose request it sent at `sent`, on its own clock.

    `sent` is read *before* the request leaves: the engine starts counting later, so the holder
    stops earlier than the engine, however long the request and the reply were under way.
    """
    return sent + ttl * (1 - DRIFT) - MARGIN


def suggest_ttl(operation: float, latency: float, drift: float) -> float:
    """A ttl for a lock around an operation: twice the sum of what can make it late, in seconds.

    A lease must outlive the slowest honest run of the work it protects (`operation`), the time a
    request to the engine takes at its worst (`latency`, once to acquire and renew), and what two
    clocks may disagree by in that time (`drift`). Twice that leaves room for one retry of
    everything. Longer is not safer: the ttl is also how long everyone waits after a holder dies.
    """
    parts = {"operation": operation, "latency": latency, "drift": drift}
    for what, value in parts.items():
        if not 0 <= _number(what, value) < math.inf:
            raise ValueError(f"{what} must be zero or more seconds, not {value}")
    return 2 * sum(parts.values())
