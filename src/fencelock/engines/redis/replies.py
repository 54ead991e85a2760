"""Reads the scripts' replies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fencelock.core.ticket import Holder, Inspection, Owner, Place, Share, Standing, Waiter

_PLACES = tuple(Place)
_new = tuple.__new__


def standing_of(reply: Iterable[int]) -> Standing:
    """The standing in a reply of `enter` or `renew`, or in a wake-up."""
    place, fence, abandoned, recheck_us = reply
    # Not by the constructor of the named tuple, which is written in Python.
    return _new(Standing, (_PLACES[place], fence, abandoned == 1, recheck_us / 1e6))


def pushed_standing(wake_up: str) -> Standing | None:
    """The standing in a wake-up. None if it can't be read: the caller looks again."""
    try:
        return standing_of(map(int, wake_up.split()))
    except (ValueError, IndexError):
        return None


def inspection_of(name: str, reply: Sequence[Any]) -> Inspection:
    """The reply of `inspect`. Redis returns the holders in no order."""
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
