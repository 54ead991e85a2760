"""What the figures mean for one who is about to use this engine."""

from __future__ import annotations

import math
from collections.abc import Mapping

from fencelock.cli.bench.figures import Figure
from fencelock.core.durations import DEFAULT_TTL
from fencelock.engines.contract import Traits
from fencelock.primitives.schedule import RENEW_AT

_ROOM = 10
"""How many times the slowest usual answer has to fit between two renewals."""

_FAR = 0.005
"""Seconds from which on the way to the engine, and not the engine, decides how fast it all is."""

_UNEVEN = 20
"""p99 above p50 from which on one should not count on the latter."""


def span(seconds: float) -> str:
    """A short time as one would say it: 85 µs, 1.2 ms, 3.4 s."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= 0.9995 * size or unit == "µs":
            value = seconds / size
            return f"{value:.{0 if value >= 99.5 else 1 if value >= 9.95 else 2}f} {unit}"
    raise AssertionError


def rough(number: float | None) -> str:
    """A number with as many digits as such a measurement deserves: 7,300."""
    if number is None:
        return ""
    if number < 10:
        return f"{number:.1f}"
    digits = max(0, math.floor(math.log10(number)) - 1)
    return f"{round(number, -digits):,.0f}"


def shortest_ttl(figures: Mapping[str, Figure]) -> float:
    """The shortest ttl, in seconds, at which a lease is not lost to an ordinary delay.

    Renewals are sent at a third of it and have to be answered within another. Below a second a busy
    machine alone may cost leases.
    """
    return max(1.0, math.ceil(_ROOM * figures["pair"].p99 / RENEW_AT))


def expectations(traits: Traits, figures: Mapping[str, Figure]) -> list[str]:
    """Plain sentences."""
    pair, look, crowd = figures["pair"], figures["look"], figures["turns-8"]
    order = "in order of arrival" if traits.fifo else "in no order"
    woken = "the release itself wakes the next" if traits.push else "they ask again now and then"
    lines = [
        f"A free lock costs {span(pair.p50)}, a question {span(look.p50)}: work that is shorter than "
        "that is better done several pieces under one lock.",
        f"With 8 processes that want it, one name changes hands about {rough(crowd.per_second)} times a "
        f"second. They get it {order}, and {woken}.",
        f"Different names don't wait for one another: about {rough(figures['processes'].per_second)} "
        f"locks a second from 4 processes here, {rough(figures['tasks'].per_second)} from one with asyncio.",
    ]
    if traits.leases_expire:
        renewals = figures["renewals"].per_second or 0.0
        lines += [
            f"The shortest sensible ttl is {shortest_ttl(figures):g} s; "
            f"the default is {DEFAULT_TTL:g} s.",
            f"One process can keep about {rough(renewals * DEFAULT_TTL * RENEW_AT / 2)} leases of "
            f"{DEFAULT_TTL:g} s, if half of its time may go into renewals.",
        ]
    else:
        lines += [
            "There is no ttl: a lock ends with its connection, at once if its process dies; one that is "
            "only stopped keeps it.",
            "Each lease, and each that waits, has a connection of its own: as many as the server allows.",
        ]
    if traits.condition:
        lines.append(f"Promise: {traits.guarantee}, as long as {traits.condition}.")
    return [*lines, f"Fences: {traits.fencing}."]


def warnings(traits: Traits, figures: Mapping[str, Figure], overlaps: int) -> list[str]:
    """What one should not find out later."""
    pair, look = figures["pair"], figures["look"]
    lines = []
    if overlaps:
        lines.append(
            f"{overlaps} times a process had the lock while another held it: on this engine that must not "
            "happen while all is well, please report it."
        )
    if traits.guarantee == "efficiency":
        lines.append(
            "This engine is for efficiency locks: after a failover or a restart two may hold one lock. If "
            "that would damage data, let the storage check the fence, or use another engine."
        )
    if look.p50 >= _FAR:
        lines.append(
            f"The engine is far away, {span(look.p50)} for a question and its answer: most of a lock's time "
            "is the way there and back, so a nearer one would be faster."
        )
    if pair.p99 >= _UNEVEN * pair.p50:
        lines.append(
            f"It is uneven: one in a hundred takes {span(pair.p99)}, {pair.p99 / pair.p50:.0f} times the "
            "usual. Choose ttl and timeouts by that one; is the machine or the engine busy?"
        )
    if traits.leases_expire and shortest_ttl(figures) > DEFAULT_TTL:
        lines.append(
            f"Even the default ttl of {DEFAULT_TTL:g} s is too short here: give a longer one."
        )
    return lines
