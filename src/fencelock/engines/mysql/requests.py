"""Builds the requests: calls of procedures in the database, each one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.mysql.wire import EmptyMeansYes
from fencelock.engines.sql.answers import to_us


class _Requests:
    """The requests of every engine. They are SQL texts: MySQL's drivers prepare nothing."""

    def __init__(self, prefix: str) -> None:
        self._call = f"CALL {prefix}"

    def inspect(self, name: str, limit: int) -> str:
        return f"{self._call}_inspect({binary(name)},{limit:d})"

    def names(self) -> str:
        return f"{self._call}_names()"

    def evict(self, name: str) -> str:
        return f"{self._call}_evict({binary(name)})"


class RowRequests(_Requests):
    """The requests of the engine over lease rows."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"{prefix}_v2")

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> str:
        free = "1" if if_free else "0"
        plain = (
            f"{binary(ticket.name)},{binary(ticket.id)},{to_us(ticket.ttl)},"
            f"{binary(channel)},{binary(ticket.owner.pack())},{free}"
        )
        share, floor = ticket.share, ticket.floor
        if not share.group and not floor:
            return f"{self._call}_enter({plain})"
        sharing = f"{binary(share.group)},{share.weight},{share.permits}"
        return f"{self._call}_join({plain},{floor + 1},{sharing})"

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(
            _sized(ticket.name, 4) + _sized(ticket.id, 4) + to_us(ticket.ttl).zfill(16).encode()
            for ticket in tickets
        )
        return f"{self._call}_renew({_literal(packed)})"

    def leave(self, ticket: Ticket, departure: Departure) -> str:
        procedure = "take_out" if ticket.share.group else "leave"
        return EmptyMeansYes(f"{self._call}_{procedure}({_departing(ticket, departure)})")

    def remember(self, ticket: Ticket, text: str, keep: float) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{binary(text)},{to_us(keep)}"
        return f"{self._call}_remember({values})"

    def recall(self, name: str) -> str:
        return f"{self._call}_recall({binary(name)})"

    def listen(self, tickets: Sequence[Ticket], latch: str, seconds: float) -> str:
        """Sleep in the server until one of the tickets is woken.

        The answer has lines "ID STANDING", or "ID" for a ticket that should look again. An empty line
        means that no connection holds the latch, so the server can't sleep.
        """
        waiting: dict[str, list[str]] = {}
        for ticket in tickets:
            waiting.setdefault(ticket.name, []).append(ticket.id)
        packed = b"".join(
            _sized(name, 4) + _sized(",".join(ids), 8) for name, ids in waiting.items()
        )
        return f"{self._call}_listen({_literal(packed)},{binary(latch)},{seconds:.3f})"


def get_lock(name: str) -> str:
    """Take a GET_LOCK for this connection, unless another connection has it."""
    return f"DO GET_LOCK({binary(name)}, 0)"


class SessionRequests(_Requests):
    """The requests of the engine over GET_LOCK."""

    def __init__(self, prefix: str, scope: str) -> None:
        super().__init__(f"{prefix}_v3_session")
        self._scope = scope

    def enter(self, ticket: Ticket, if_free: bool) -> str:
        return f"{self._call}_enter({self._session(ticket)},{if_free:d})"

    def wait(self, ticket: Ticket) -> str:
        return f"SELECT GET_LOCK({self._hash(ticket)},31536000)"

    def admit(self, ticket: Ticket) -> str:
        return f"{self._call}_admit({self._session(ticket)})"

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(_sized(ticket.name, 4) + _sized(ticket.id, 4) for ticket in tickets)
        return f"{self._call}_renew({_literal(packed)})"

    def rename(self, ticket: Ticket) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{binary(ticket.owner.pack())}"
        return f"{self._call}_rename({values})"

    def leave(self, ticket: Ticket, departure: Departure) -> str:
        return EmptyMeansYes(f"{self._call}_leave({_departing(ticket, departure)})")

    def end(self, ticket: Ticket, departure: Departure) -> str:
        return f"{self._call}_end({_departing(ticket, departure)})"

    def _session(self, ticket: Ticket) -> str:
        owner = binary(ticket.owner.pack())
        lowest = ticket.floor + 1
        return f"{binary(ticket.name)},{binary(ticket.id)},{self._hash(ticket)},{owner},{lowest}"

    def _hash(self, ticket: Ticket) -> str:
        return binary(hash_of(self._scope, ticket.name))


def hash_of(scope: str, name: str) -> str:
    """The GET_LOCK for a name: 128 bits as hex digits. The server checks that no two names share it.

    All databases of a server use the same set of GET_LOCKs, so the scope is part of the hash.
    """
    return blake2b(f"{scope} {name}".encode(), digest_size=16).hexdigest()


def binary(text: str) -> str:
    """A text as a literal that needs no quoting, in every mode and character set of the server."""
    return _literal(text.encode())


def _literal(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _departing(ticket: Ticket, departure: Departure) -> str:
    return f"{binary(ticket.name)},{binary(ticket.id)},{departure:d}"


def _sized(text: str, digits: int) -> bytes:
    """The text behind its length."""
    value = text.encode()
    return str(len(value)).zfill(digits).encode() + value
