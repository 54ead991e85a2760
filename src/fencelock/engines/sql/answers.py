"""Reads the answers of a database. Every answer is a list of text lines."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fencelock.core.ticket import Holder, Inspection, Owner, Place, Share, Standing, Waiter

_PLACES = tuple(Place)


def standing_of(text: str) -> Standing:
    """From "PLACE FENCE ABANDONED RECHECK_US"."""
    place, fence, abandoned, recheck_us = text.split()
    return Standing(_PLACES[int(place)], int(fence), abandoned == "1", int(recheck_us) / 1e6)


def pushed_standing(text: str) -> Standing | None:
    """From a wake-up. None if the text is unreadable: the waiter looks again."""
    try:
        return standing_of(text)
    except (ValueError, IndexError):
        return None


def lines_of(answers: Sequence[str]) -> list[str]:
    """The lines of an answer. A database may put many lines into one row."""
    return [line for answer in answers for line in answer.splitlines()]


def inspection_of(name: str, lines: Sequence[str]) -> Inspection:
    """From "NEWEST ABANDONED HOLDERS WAITING" and one line for each ticket, the holders first."""
    newest, abandoned, holders, waiting = (int(number) for number in lines[0].split())
    tickets = [_ticket(line) for line in lines[1:]]
    return Inspection(
        name,
        tuple(Holder(*fields) for fields in tickets[:holders]),
        tuple(Waiter(*fields) for fields in tickets[holders:]),
        waiting,
        newest,
        abandoned == 1,
    )


def _ticket(line: str) -> tuple[Owner, int, float, float, Share]:
    """From "FENCE SINCE_US EXPIRES_US WEIGHT PERMITS<tab>GROUP<tab>OWNER". EXPIRES_US -1: never."""
    numbers, group, owner = line.split("\t", 2)
    fence, since_us, expires_us, weight, permits = (int(number) for number in numbers.split())
    expires_in = math.inf if expires_us == -1 else expires_us / 1e6
    share = Share(group, weight, permits)
    return Owner.unpack(owner), fence, since_us / 1e6, expires_in, share
