"""Builds the requests: calls of functions in the database, each one round trip."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
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


class _Requests:
    """The requests of every engine."""

    prefix = ""
    """What the names of the functions begin with, after the version."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._inspect = self._statement("inspect", "text, int")
        self._names = self._statement("names", "")
        self._evict = self._statement("evict", "text", "::int")

    def inspect(self, name: str, limit: int) -> Request:
        return self._inspect, (name, str(limit))

    def names(self) -> Request:
        return self._names, ()

    def evict(self, name: str) -> Request:
        return self._evict, (name,)

    def _statement(self, function: str, types: str, cast: str = "") -> Statement:
        name = self.prefix + function
        listed = types.split(", ") if types else []
        values = ", ".join(f"${number}::{type}" for number, type in enumerate(listed, 1))
        sql = within(self._schema, f"SELECT fencelock.v2_{name}({values}){cast}")
        return Statement(f"fencelock_{name}".encode(), sql.encode())


class RowRequests(_Requests):
    """The requests of the engine over lease rows."""

    def __init__(self, schema: str) -> None:
        super().__init__(schema)
        plain = "text, text, bigint, text, text, boolean"
        self._enter = self._statement("enter", plain)
        self._join = self._statement("join", f"{plain}, bigint, text, bigint, bigint")
        many = "text[], text[], bigint[], text, text[], bigint[], text[], bigint[], bigint[]"
        self._enter_free = self._statement("enter_free", many)
        self._renew = self._statement("renew", "text[], text[], bigint[]")
        self._leave = self._statement("leave", "text, text, int", "::int")
        self._take_out = self._statement("take_out", "text, text, int", "::int")
        self._remember = self._statement("remember", "text, text, text, bigint", "::int")
        self._recall = self._statement("recall", "text")
        self._admitted = self._statement("admitted", "text[], text[]")
        self._notify = Statement(b"fencelock_notify", b"SELECT pg_notify($1, $2)")

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> Request:
        owner, free = ticket.owner.pack(), "t" if if_free else "f"
        plain = (ticket.name, ticket.id, to_us(ticket.ttl), channel, owner, free)
        share, floor = ticket.share, ticket.floor
        if not share.group and not floor:
            return self._enter, plain
        sharing = (share.group, str(share.weight), str(share.permits))
        return self._join, (*plain, str(floor + 1), *sharing)

    def enter_free(self, tickets: Sequence[Ticket], channel: str) -> Request:
        """The answer has one line for each ticket, in order."""
        owners = _array(ticket.owner.pack() for ticket in tickets)
        lowests = _array(str(ticket.floor + 1) for ticket in tickets)
        shares = [ticket.share for ticket in tickets]
        groups = _array(share.group for share in shares)
        weights = _array(str(share.weight) for share in shares)
        permits = _array(str(share.permits) for share in shares)
        plain = (*_names_and_ids(tickets), _ttls(tickets), channel, owners)
        return self._enter_free, (*plain, lowests, groups, weights, permits)

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._renew, (*_names_and_ids(tickets), _ttls(tickets))

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        leave = self._take_out if ticket.share.group else self._leave
        return leave, (ticket.name, ticket.id, "012"[departure])

    def remember(self, ticket: Ticket, text: str, keep: float) -> Request:
        return self._remember, (ticket.name, ticket.id, text, to_us(keep))

    def recall(self, name: str) -> Request:
        return self._recall, (name,)

    def admitted(self, tickets: Sequence[Ticket]) -> Request:
        """The answer has a line "ID STANDING" for each ticket that was admitted."""
        return self._admitted, _names_and_ids(tickets)

    def notify(self, channel: str, payload: str) -> Request:
        return self._notify, (channel, payload)


@cache
def row_requests(schema: str) -> RowRequests:
    """The requests for one schema, made once."""
    return RowRequests(schema)


class SessionRequests(_Requests):
    """The requests of the engine over advisory locks."""

    prefix = "session_"

    def __init__(self, schema: str) -> None:
        super().__init__(schema)
        self._enter = self._statement("enter", "text, text, bigint, text, bigint, boolean")
        self._wait = Statement(b"fencelock_wait", b"SELECT pg_advisory_lock($1::bigint)")
        self._admit = self._statement("admit", "text, text, bigint, text, bigint")
        self._renew = self._statement("renew", "text[]")
        self._rename = self._statement("rename", "text, text")
        self._leave = self._statement("leave", "text, text, bigint, int", "::int")
        self._end = self._statement("end", "text, int", "::int")

    def enter(self, ticket: Ticket, if_free: bool) -> Request:
        return self._enter, (*self._session(ticket), "t" if if_free else "f")

    def wait(self, ticket: Ticket) -> Request:
        return self._wait, (self._key(ticket),)

    def admit(self, ticket: Ticket) -> Request:
        return self._admit, self._session(ticket)

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._renew, (_array(ticket.id for ticket in tickets),)

    def rename(self, ticket: Ticket) -> Request:
        return self._rename, (ticket.id, ticket.owner.pack())

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        values = (ticket.name, ticket.id, self._key(ticket), "012"[departure])
        return self._leave, values

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        return self._end, (ticket.id, "012"[departure])

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
