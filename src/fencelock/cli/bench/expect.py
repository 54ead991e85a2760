"""What the figures mean for a user of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fencelock.cli.bench.figures import Figure
from fencelock.core.durations import DEFAULT_TTL
from fencelock.engines.contract import Traits
from fencelock.primitives.schedule import RENEW_AT

_DELAYS_BETWEEN_RENEWALS = 10
"""How many times the p99 of a pair must fit between two renewals."""

_FAR_AWAY = 0.005
"""Round trip, in seconds, from which the network decides how fast a lock is, and not the engine."""

_UNEVEN = 20
"""p99 divided by p50, from which p50 says little about what to expect."""


def short_duration(seconds: float) -> str:
    """A short duration as text: 85.0 µs, 1.23 ms, 3.40 s."""
    units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))
    size, unit = next((each for each in units if seconds >= 0.9995 * each[0]), units[-1])
    value = seconds / size
    return f"{value:.{0 if value >= 99.5 else 1 if value >= 9.95 else 2}f} {unit}"


def rough(number: float | None) -> str:
    """A number with two significant digits: 7,300. A measurement is not more exact than that."""
    if number is None:
        return ""
    if number < 10:
        return f"{number:.1f}"
    digits = max(0, math.floor(math.log10(number)) - 1)
    return f"{round(number, -digits):,.0f}"


def shortest_ttl(figures: Mapping[str, Figure]) -> float:
    """The shortest ttl, in seconds, at which ordinary delays cost no lease.

    A renewal is sent after a third of the ttl, and must be answered within another third. The minimum is
    a second: with less, a busy machine alone may lose leases.
    """
    return max(1.0, math.ceil(_DELAYS_BETWEEN_RENEWALS * figures["pair"].p99 / RENEW_AT))


def expectations(traits: Traits, figures: Mapping[str, Figure]) -> list[str]:
    """What to expect from the engine, as sentences."""
    pair, look, crowd = figures["pair"], figures["look"], figures["turns-8"]
    order = "in order of arrival" if traits.fifo else "in no order"
    woken = "the release itself wakes the next" if traits.push else "they ask again now and then"
    lines = [
        f"A free lock costs {short_duration(pair.p50)}, a read-only request {short_duration(look.p50)}. Do "
        "several pieces of work under one lock if each is shorter than that.",
        f"With 8 processes that want it, one name changes hands about {rough(crowd.per_second)} times a "
        f"second. Waiters get it {order}, and {woken}.",
        f"Different names don't wait for one another: about {rough(figures['processes'].per_second)} locks "
        f"a second from 4 processes, {rough(figures['tasks'].per_second)} from one process with asyncio.",
    ]
    if traits.leases_expire:
        renewals = figures["renewals"].per_second or 0.0
        lines += [
            f"The shortest sensible ttl is {shortest_ttl(figures):g} s; "
            f"the default is {DEFAULT_TTL:g} s.",
            f"One process can keep about {rough(renewals * DEFAULT_TTL * RENEW_AT / 2)} leases of "
            f"{DEFAULT_TTL:g} s, if it spends half of its time on renewals.",
        ]
    else:
        lines += [
            "There is no ttl: a lock ends with its connection, so at once if its process dies. A process "
            "that is only stopped keeps the lock.",
            "Each lease and each waiter has a connection of its own: the server limits how many there are.",
        ]
    if traits.condition:
        lines.append(f"Promise: {traits.guarantee}, as long as {traits.condition}.")
    return [*lines, f"Fences: {traits.fencing}."]


def warnings(traits: Traits, figures: Mapping[str, Figure], overlaps: int) -> list[str]:
    """What the user should know before relying on the engine."""
    pair, look = figures["pair"], figures["look"]
    lines = []
    if overlaps:
        lines.append(
            f"{overlaps} times a process had the lock while another held it. Without a fault that must not "
            "happen on this engine: please report it."
        )
    if traits.guarantee == "efficiency":
        lines.append(
            "This engine is for efficiency locks: after a failover or a restart, a lock may have two "
            "holders. If that would damage data, let the storage check the fence, or use another engine."
        )
    if look.p50 >= _FAR_AWAY:
        lines.append(
            f"The engine is far away, {short_duration(look.p50)} for a round trip. Most of a lock's time "
            "goes into the network: a nearer engine would be faster."
        )
    if pair.p99 >= _UNEVEN * pair.p50:
        lines.append(
            f"It is uneven: one lock in a hundred takes {short_duration(pair.p99)}, "
            f"{pair.p99 / pair.p50:.0f} times the usual. Choose ttl and timeouts for that one. Perhaps the "
            "machine or the engine is busy."
        )
    if traits.leases_expire and shortest_ttl(figures) > DEFAULT_TTL:
        lines.append(
            f"Even the default ttl of {DEFAULT_TTL:g} s is too short here: use a longer ttl."
        )
    return lines
