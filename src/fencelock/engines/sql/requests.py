"""Builds the requests, and reads the answers.

Each request calls one function or procedure in the database, in one round trip. Every answer is a list of
text lines. For yes and no the database answers 1 and 0.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from fencelock.core.ticket import (
    Departure,
    Holder,
    Inspection,
    Owner,
    Place,
    Share,
    Standing,
    Ticket,
    Waiter,
)

Request = Any
"""A database's `Requests` builds it and its `Wire` sends it. The code in between never looks inside."""

_PLACES = tuple(Place)


class Requests(ABC):
    """The requests of every engine."""

    @abstractmethod
    def _call(self, function: str, *values: str | int) -> Request:
        """Call a function with these values."""

    def inspect(self, name: str, limit: int) -> Request:
        return self._call("inspect", name, limit)

    def names(self) -> Request:
        return self._call("names")

    def evict(self, name: str) -> Request:
        return self._call("evict", name)

    @abstractmethod
    def renew(self, tickets: Sequence[Ticket]) -> Request:
        """The answer has one line for each ticket, in order. Sessions: check whether they live."""


class RowRequests(Requests):
    """The requests of the engine over lease rows."""

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> Request:
        if ticket.share.group or ticket.floor:
            return self.join(ticket, channel, if_free)
        return self._call("enter", *self._plain(ticket, channel, if_free))

    def join(self, ticket: Ticket, channel: str, if_free: bool) -> Request:
        """The same for any ticket. It is cheaper for one that is in the queue already."""
        plain = self._plain(ticket, channel, if_free)
        return self._call("join", *plain, ticket.floor + 1, *ticket.share)

    def _plain(self, ticket: Ticket, channel: str, if_free: bool) -> tuple[str | int, ...]:
        owner = ticket.owner.pack()
        return ticket.name, ticket.id, to_us(ticket.ttl), channel, owner, if_free

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        function = "take_out" if ticket.share.group else "leave"
        return self._call(function, ticket.name, ticket.id, departure)

    def remember(self, ticket: Ticket, text: str, keep: float) -> Request:
        return self._call("remember", ticket.name, ticket.id, text, to_us(keep))

    def recall(self, name: str) -> Request:
        """The answer is the text, or nothing."""
        return self._call("recall", name)


class SessionRequests(Requests):
    """The requests of the engine over session locks."""

    @abstractmethod
    def _key(self, ticket: Ticket) -> str:
        """What the server locks for the ticket's name."""

    def enter(self, ticket: Ticket, if_free: bool) -> Request:
        """Take the lock in this session if it is free. If not, `wait` comes next."""
        return self._call("enter", *self._session(ticket), if_free)

    @abstractmethod
    def wait(self, ticket: Ticket) -> Request:
        """The answer comes when this session has the lock. Then `admit` comes next."""

    def admit(self, ticket: Ticket) -> Request:
        """Give a fence to the ticket whose session has the lock."""
        return self._call("admit", *self._session(ticket))

    def rename(self, ticket: Ticket) -> Request:
        """Store the ticket's new owner. The answer is that of `renew`."""
        return self._call("rename", ticket.name, ticket.id, ticket.owner.pack())

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        """Release the lock that this session has."""
        return self._call("leave", ticket.name, ticket.id, departure)

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        """End the ticket's session from another one."""
        return self._call("end", ticket.name, ticket.id, departure)

    def _session(self, ticket: Ticket) -> tuple[str | int, ...]:
        owner = ticket.owner.pack()
        return ticket.name, ticket.id, self._key(ticket), owner, ticket.floor + 1


def to_us(seconds: float) -> int:
    """Seconds as whole microseconds, the unit of all times in a database."""
    return int(seconds * 1_000_000)


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
