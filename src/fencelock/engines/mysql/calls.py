"""What the engines ask of a database: calls of its procedures, each one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.mysql.wire import Terse
from fencelock.engines.sql.answers import us


class _Calls:
    """What every engine asks. They are texts: MySQL's drivers prepare nothing."""

    def __init__(self, prefix: str) -> None:
        self._procedure = f"CALL {prefix}"

    def inspect(self, name: str, most: int) -> str:
        return f"{self._procedure}_inspect({binary(name)},{most:d})"

    def names(self) -> str:
        return f"{self._procedure}_names()"

    def evict(self, name: str) -> str:
        return f"{self._procedure}_evict({binary(name)})"


class RowCalls(_Calls):
    """What the engine over lease rows asks."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"{prefix}_v2")

    def enter(self, ticket: Ticket, channel: str, if_free: bool) -> str:
        free = "1" if if_free else "0"
        plain = (
            f"{binary(ticket.name)},{binary(ticket.id)},{us(ticket.ttl)},"
            f"{binary(channel)},{binary(ticket.owner.pack())},{free}"
        )
        share, floor = ticket.share, ticket.floor
        if not share.group and not floor:
            return f"{self._procedure}_enter({plain})"
        beside = f"{binary(share.group)},{share.weight},{share.permits}"
        return f"{self._procedure}_join({plain},{floor + 1},{beside})"

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(
            _sized(ticket.name, 4) + _sized(ticket.id, 4) + us(ticket.ttl).zfill(16).encode()
            for ticket in tickets
        )
        return f"{self._procedure}_renew({_literal(packed)})"

    def leave(self, ticket: Ticket, departure: Departure) -> str:
        leave = "take_out" if ticket.share.group else "leave"
        values = f"{binary(ticket.name)},{binary(ticket.id)},{departure:d}"
        return Terse(f"{self._procedure}_{leave}({values})")

    def remember(self, ticket: Ticket, text: str, keep: float) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{binary(text)},{us(keep)}"
        return f"{self._procedure}_remember({values})"

    def recall(self, name: str) -> str:
        return f"{self._procedure}_recall({binary(name)})"

    def listen(self, tickets: Sequence[Ticket], latch: str, seconds: float) -> str:
        """Sleep until there is news about one of them, in lines "ID STANDING" or "ID".

        An empty line: nobody keeps the latch, so it can't sleep.
        """
        waiting: dict[str, list[str]] = {}
        for ticket in tickets:
            waiting.setdefault(ticket.name, []).append(ticket.id)
        packed = b"".join(
            _sized(name, 4) + _sized(",".join(ids), 8) for name, ids in waiting.items()
        )
        return f"{self._procedure}_listen({_literal(packed)},{binary(latch)},{seconds:.3f})"


def get_lock(name: str) -> str:
    """Take a GET_LOCK for this connection, or leave it to the one that has it."""
    return f"DO GET_LOCK({binary(name)}, 0)"


class SessionCalls(_Calls):
    """What the engine over GET_LOCK asks."""

    def __init__(self, prefix: str, scope: str) -> None:
        super().__init__(f"{prefix}_v3_session")
        self._scope = scope

    def enter(self, ticket: Ticket, if_free: bool) -> str:
        return f"{self._procedure}_enter({self._session(ticket)},{if_free:d})"

    def wait(self, ticket: Ticket) -> str:
        return f"SELECT GET_LOCK({self._hash(ticket)},31536000)"

    def admit(self, ticket: Ticket) -> str:
        return f"{self._procedure}_admit({self._session(ticket)})"

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(_sized(ticket.name, 4) + _sized(ticket.id, 4) for ticket in tickets)
        return f"{self._procedure}_renew({_literal(packed)})"

    def rename(self, ticket: Ticket) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{binary(ticket.owner.pack())}"
        return f"{self._procedure}_rename({values})"

    def leave(self, ticket: Ticket, departure: Departure) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{departure:d}"
        return Terse(f"{self._procedure}_leave({values})")

    def end(self, ticket: Ticket, departure: Departure) -> str:
        values = f"{binary(ticket.name)},{binary(ticket.id)},{departure:d}"
        return f"{self._procedure}_end({values})"

    def _session(self, ticket: Ticket) -> str:
        owner = binary(ticket.owner.pack())
        lowest = ticket.floor + 1
        return f"{binary(ticket.name)},{binary(ticket.id)},{self._hash(ticket)},{owner},{lowest}"

    def _hash(self, ticket: Ticket) -> str:
        return binary(hash_of(self._scope, ticket.name))


def hash_of(scope: str, name: str) -> str:
    """What the server locks: 128 bits as hex digits. That no two names share one is checked there.

    The server has one set of such locks for all of its databases: hence the scope.
    """
    return blake2b(f"{scope} {name}".encode(), digest_size=16).hexdigest()


def binary(text: str) -> str:
    """A text as a literal that needs no quoting, whatever the server's mode and character set."""
    return _literal(text.encode())


def _literal(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _sized(text: str, digits: int) -> bytes:
    value = text.encode()
    return str(len(value)).zfill(digits).encode() + value
