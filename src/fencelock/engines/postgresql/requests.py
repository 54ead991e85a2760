"""Builds the requests: calls of functions in the database, each one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.postgresql.schema import within
from fencelock.engines.sql.answers import to_us


class Statement(NamedTuple):
    """A statement, and the name under which a connection may have prepared it."""

    name: bytes
    sql: bytes


Request = tuple[Statement, tuple[str, ...]]
"""A statement with its values. A plain tuple, because each request makes a new one."""

_YES_OR_NO = ("evict", "leave", "take_out", "remember", "end")
"""The functions that return a boolean: the answer is 1 or 0."""


class _Requests:
    """The requests of every engine."""

    prefix = ""
    """What the names of the functions begin with, after the version."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._statements: dict[str, Statement] = {}

    def inspect(self, name: str, limit: int) -> Request:
        return self._call("inspect", name, str(limit))

    def names(self) -> Request:
        return self._call("names")

    def evict(self, name: str) -> Request:
        return self._call("evict", name)

    def _call(self, function: str, *values: str) -> Request:
        statement = self._statements.get(function)
        if statement is None:
            name = self.prefix + function
            numbers = ", ".join(f"${number}" for number in range(1, len(values) + 1))
            cast = "::int" if function in _YES_OR_NO else ""
            sql = within(self._schema, f"SELECT fencelock.v2_{name}({numbers}){cast}")
            statement = Statement(f"fencelock_{name}".encode(), sql.encode())
            self._statements[function] = statement
        return statement, values


class RowRequests(_Requests):
    """The requests of the engine over lease rows."""

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> Request:
        owner, free = ticket.owner.pack(), "t" if if_free else "f"
        plain = (ticket.name, ticket.id, to_us(ticket.ttl), channel, owner, free)
        share, floor = ticket.share, ticket.floor
        if not share.group and not floor:
            return self._call("enter", *plain)
        sharing = (share.group, str(share.weight), str(share.permits))
        return self._call("join", *plain, str(floor + 1), *sharing)

    def enter_free(self, tickets: Sequence[Ticket], channel: str) -> Request:
        """The answer has one line for each ticket, in order."""
        owners = _array(ticket.owner.pack() for ticket in tickets)
        lowests = _array(str(ticket.floor + 1) for ticket in tickets)
        shares = [ticket.share for ticket in tickets]
        groups = _array(share.group for share in shares)
        weights = _array(str(share.weight) for share in shares)
        permits = _array(str(share.permits) for share in shares)
        plain = (*_names_and_ids(tickets), _ttls(tickets), channel, owners)
        return self._call("enter_free", *plain, lowests, groups, weights, permits)

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._call("renew", *_names_and_ids(tickets), _ttls(tickets))

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        function = "take_out" if ticket.share.group else "leave"
        return self._call(function, ticket.name, ticket.id, "012"[departure])

    def remember(self, ticket: Ticket, text: str, keep: float) -> Request:
        return self._call("remember", ticket.name, ticket.id, text, to_us(keep))

    def recall(self, name: str) -> Request:
        return self._call("recall", name)

    def admitted(self, tickets: Sequence[Ticket]) -> Request:
        """The answer has a line "ID STANDING" for each ticket that was admitted."""
        return self._call("admitted", *_names_and_ids(tickets))

    def notify(self, channel: str, payload: str) -> Request:
        return Statement(b"fencelock_notify", b"SELECT pg_notify($1, $2)"), (channel, payload)


class SessionRequests(_Requests):
    """The requests of the engine over advisory locks."""

    prefix = "session_"

    def enter(self, ticket: Ticket, if_free: bool) -> Request:
        return self._call("enter", *self._session(ticket), "t" if if_free else "f")

    def wait(self, ticket: Ticket) -> Request:
        lock = Statement(b"fencelock_wait", b"SELECT pg_advisory_lock($1::bigint)")
        return lock, (self._key(ticket),)

    def admit(self, ticket: Ticket) -> Request:
        return self._call("admit", *self._session(ticket))

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._call("renew", _array(ticket.id for ticket in tickets))

    def rename(self, ticket: Ticket) -> Request:
        return self._call("rename", ticket.id, ticket.owner.pack())

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        return self._call("leave", ticket.name, ticket.id, self._key(ticket), "012"[departure])

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        return self._call("end", ticket.id, "012"[departure])

    def _session(self, ticket: Ticket) -> tuple[str, ...]:
        lowest = str(ticket.floor + 1)
        return ticket.name, ticket.id, self._key(ticket), ticket.owner.pack(), lowest

    def _key(self, ticket: Ticket) -> str:
        return key_of(self._schema, ticket.name)


def key_of(schema: str, name: str) -> str:
    """The 64-bit number that the server locks for a name. The server checks that no two names share it.

    All schemas of a database use the same set of advisory locks, so the schema is part of the hash.
    """
    hash = blake2b(f"{schema} {name}".encode(), digest_size=8).digest()
    return str(int.from_bytes(hash, signed=True))


def _names_and_ids(tickets: Sequence[Ticket]) -> tuple[str, str]:
    return _array(ticket.name for ticket in tickets), _array(ticket.id for ticket in tickets)


def _ttls(tickets: Sequence[Ticket]) -> str:
    return _array(to_us(ticket.ttl) for ticket in tickets)


def _array(items: Iterable[str]) -> str:
    """Texts or numbers as the text of an SQL array."""
    return "{" + ",".join(f'"{_escaped(item)}"' for item in items) + "}"


def _escaped(item: str) -> str:
    return item.replace("\\", "\\\\").replace('"', '\\"') if '"' in item or "\\" in item else item
