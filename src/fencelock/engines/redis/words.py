"""Tickets and standings in the words of the scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from fencelock.core.ticket import Holder, Inspection, Owner, Place, Share, Standing, Waiter

_PLACES = tuple(Place)
_new = tuple.__new__


def standing_of(reply: Iterable[int]) -> Standing:
    """What `enter`, `renew` and a wake-up answer."""
    place, fence, abandoned, recheck_us = reply
    # Past the constructor of named tuples, which is written in Python.
    return _new(Standing, (_PLACES[place], fence, abandoned == 1, recheck_us / 1e6))


def news_of(wake_up: str) -> Standing | None:
    """From a wake-up; None for one that can't be read: look again."""
    try:
        return standing_of(map(int, wake_up.split()))
    except (ValueError, IndexError):
        return None


def inspection_of(name: str, reply: Sequence[Any]) -> Inspection:
    """What `inspect` answers; those who hold come in no order."""
    last, abandoned, holders, waiting, waiters = reply
    return Inspection(
        name,
        tuple(Holder(*_ticket(*one)) for one in sorted(holders)),
        tuple(Waiter(*_ticket(*one)) for one in waiters),
        waiting,
        last,
        bool(abandoned),
    )


def _ticket(
    fence: int, left_us: int, since_us: int, owner: bytes, group: bytes = b"", *permits: int
) -> tuple[Owner, int, float, float, Share]:
    share = Share(group.decode(), *permits)
    return Owner.unpack(owner.decode()), fence, since_us / 1e6, left_us / 1e6, share


def us(seconds: float) -> str:
    """A duration."""
    return str(int(seconds * 1_000_000))


def ms(seconds: float) -> str:
    """A duration of which nothing is cut off."""
    return str(math.ceil(seconds * 1000))
