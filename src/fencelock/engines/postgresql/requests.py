"""How requests look: a statement that calls a function, and its values as texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.postgresql.schema import within
from fencelock.engines.sql import requests
from fencelock.engines.sql.requests import to_us


class Statement(NamedTuple):
    """A statement, and the name under which a connection may have prepared it."""

    name: bytes
    sql: bytes


Request = tuple[Statement, tuple[str, ...]]
"""A statement with its values. A plain tuple, because each request makes a new one."""

_YES_OR_NO = ("evict", "leave", "leave_marked", "take_out", "remember", "end")
"""The functions that return a boolean: the answer is 1 or 0."""


class _Requests(requests.Requests):
    prefix = ""
    """What the names of the functions begin with, after the version."""

    def __init__(self, schema: str) -> None:
        self._schema = schema
        self._statements: dict[str, Statement] = {}

    def _call(self, function: str, *values: str | int) -> Request:
        statement = self._statements.get(function)
        if statement is None:
            name = self.prefix + function
            numbers = ", ".join(f"${number}" for number in range(1, len(values) + 1))
            cast = "::int" if function in _YES_OR_NO else ""
            sql = within(self._schema, f"SELECT fencelock.v2_{name}({numbers}){cast}")
            statement = Statement(f"fencelock_{name}".encode(), sql.encode())
            self._statements[function] = statement
        return statement, tuple(map(str, values))


class RowRequests(_Requests, requests.RowRequests):
    """The requests of the engine over lease rows."""

    def enter_free(self, tickets: Sequence[Ticket], channel: str) -> Request:
        """The answer has one line for each ticket, in order."""
        owners = _array(ticket.owner.pack() for ticket in tickets)
        lowests = _array(ticket.floor + 1 for ticket in tickets)
        shares = [
            _array(parts) for parts in zip(*(ticket.share for ticket in tickets), strict=True)
        ]
        plain = (*_names_and_ids(tickets), _ttls(tickets), channel, owners)
        return self._call("enter_free", *plain, lowests, *shares)

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._call("renew", *_names_and_ids(tickets), _ttls(tickets))

    def enter_marked(self, ticket: Ticket) -> Request:
        """Join a queue. This session keeps the marker of a ticket that has to wait."""
        owner = ticket.owner.pack()
        return self._call("enter_marked", ticket.name, ticket.id, to_us(ticket.ttl), owner)

    def wait_marked(self, ticket: Ticket, seconds: float) -> Request:
        """The answer is the standing if the ticket was admitted, else "wait" or "look"."""
        return self._call("wait_marked", ticket.name, ticket.id, max(1, int(seconds * 1000)))

    def leave_marked(self, ticket: Ticket, departure: Departure) -> Request:
        """As `leave`, in the session that has the ticket's marker."""
        return self._call("leave_marked", ticket.name, ticket.id, departure)

    def unmark(self) -> Request:
        """Give up the marker that this session has."""
        return self._call("unmark")

    def admitted(self, tickets: Sequence[Ticket]) -> Request:
        """The answer has a line "ID STANDING" for each ticket that was admitted."""
        return self._call("admitted", *_names_and_ids(tickets))

    def notify(self, channel: str, payload: str) -> Request:
        return Statement(b"fencelock_notify", b"SELECT pg_notify($1, $2)"), (channel, payload)


class SessionRequests(_Requests, requests.SessionRequests):
    """The requests of the engine over advisory locks."""

    prefix = "session_"

    def wait(self, ticket: Ticket) -> Request:
        lock = Statement(b"fencelock_wait", b"SELECT pg_advisory_lock($1::bigint)")
        return lock, (self._key(ticket),)

    def renew(self, tickets: Sequence[Ticket]) -> Request:
        return self._call("renew", _array(ticket.id for ticket in tickets))

    def rename(self, ticket: Ticket) -> Request:
        return self._call("rename", ticket.id, ticket.owner.pack())

    def leave(self, ticket: Ticket, departure: Departure) -> Request:
        return self._call("leave", ticket.name, ticket.id, self._key(ticket), departure)

    def end(self, ticket: Ticket, departure: Departure) -> Request:
        return self._call("end", ticket.id, departure)

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


def _array(items: Iterable[str | int]) -> str:
    """Texts or numbers as the text of an SQL array."""
    return "{" + ",".join(f'"{_escaped(str(item))}"' for item in items) + "}"


def _escaped(item: str) -> str:
    return item.replace("\\", "\\\\").replace('"', '\\"') if '"' in item or "\\" in item else item
