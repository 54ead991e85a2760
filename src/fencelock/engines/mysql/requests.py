"""How requests look: SQL texts that call procedures. MySQL's drivers prepare nothing."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from fencelock.core.ticket import Ticket
from fencelock.engines.mysql.wire import EmptyMeansYes
from fencelock.engines.sql import requests
from fencelock.engines.sql.requests import to_us


class _Requests(requests.Requests):
    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def _call(self, function: str, *values: str | bytes | int) -> str:
        text = f"CALL {self._prefix}_{function}({','.join(map(literal, values))})"
        return EmptyMeansYes(text) if function in ("leave", "take_out") else text


class RowRequests(_Requests, requests.RowRequests):
    """The requests of the engine over lease rows."""

    def __init__(self, prefix: str) -> None:
        super().__init__(f"{prefix}_v2")

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(
            _sized(ticket.name, 4) + _sized(ticket.id, 4) + b"%016d" % to_us(ticket.ttl)
            for ticket in tickets
        )
        return self._call("renew", packed)

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
        return f"CALL {self._prefix}_listen({literal(packed)},{literal(latch)},{seconds:.3f})"


def get_lock(name: str) -> str:
    """Take a GET_LOCK for this connection, unless another connection has it."""
    return f"DO GET_LOCK({literal(name)}, 0)"


class SessionRequests(_Requests, requests.SessionRequests):
    """The requests of the engine over GET_LOCK."""

    def __init__(self, prefix: str, scope: str) -> None:
        super().__init__(f"{prefix}_v3_session")
        self._scope = scope

    def wait(self, ticket: Ticket) -> str:
        return f"SELECT GET_LOCK({literal(self._key(ticket))},31536000)"

    def renew(self, tickets: Sequence[Ticket]) -> str:
        packed = b"".join(_sized(ticket.name, 4) + _sized(ticket.id, 4) for ticket in tickets)
        return self._call("renew", packed)

    def _key(self, ticket: Ticket) -> str:
        return hash_of(self._scope, ticket.name)


def hash_of(scope: str, name: str) -> str:
    """The GET_LOCK for a name: 128 bits as hex digits. The server checks that no two names share it.

    All databases of a server use the same set of GET_LOCKs, so the scope is part of the hash.
    """
    return blake2b(f"{scope} {name}".encode(), digest_size=16).hexdigest()


def literal(value: str | bytes | int) -> str:
    """A value as SQL. A text needs no quoting this way, in every mode and character set of the server."""
    if isinstance(value, int):
        return str(int(value))
    return f"X'{(value.encode() if isinstance(value, str) else value).hex()}'"


def _sized(text: str, digits: int) -> bytes:
    """The text behind its length."""
    value = text.encode()
    return str(len(value)).zfill(digits).encode() + value
