"""How a database's answers are read; all of them are lines of words, whatever the database."""

from __future__ import annotations

import math
from collections.abc import Sequence

from fencelock.core.ticket import Holder, Inspection, Owner, Place, Share, Standing, Waiter

_PLACES = tuple(Place)


def standing_of(words: str) -> Standing:
    """From "PLACE FENCE ABANDONED RECHECK_US"."""
    place, fence, abandoned, recheck_us = words.split()
    return Standing(_PLACES[int(place)], int(fence), abandoned == "1", int(recheck_us) / 1e6)


def news_of(words: str) -> Standing | None:
    """From a wake-up; None for one that can't be read, as for one that says nothing: look again."""
    try:
        return standing_of(words)
    except (ValueError, IndexError):
        return None


def lines_of(answers: Sequence[str]) -> list[str]:
    """The lines of an answer, of which a database may put many into one row."""
    return [line for answer in answers for line in answer.splitlines()]


def inspection_of(name: str, lines: Sequence[str]) -> Inspection:
    """From "NEWEST ABANDONED HOLDERS WAITING" and a line for each ticket, the holders first."""
    newest, abandoned, holders, waiting = (int(word) for word in lines[0].split())
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
    """From "FENCE SINCE_US EXPIRES_US WEIGHT PERMITS<tab>GROUP<tab>OWNER"; -1: it does not expire."""
    numbers, group, owner = line.split("\t", 2)
    fence, since_us, expires_us, weight, permits = (int(word) for word in numbers.split())
    expires = math.inf if expires_us == -1 else expires_us / 1e6
    share = Share(group, weight, permits)
    return Owner.unpack(owner), fence, since_us / 1e6, expires, share


def us(seconds: float) -> str:
    """Seconds as a database's functions want them."""
    return str(int(seconds * 1_000_000))
