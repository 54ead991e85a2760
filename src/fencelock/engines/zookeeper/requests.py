"""The requests that the engine sends."""

from __future__ import annotations

from typing import Any

from kazoo.protocol.serialization import (
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetData,
    SetData,
    Sync,
    Transaction,
    int_struct,
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

Request = Any
"""One of kazoo's: a tuple that can be serialized and can read its answer."""

EPHEMERAL = 1
_EPHEMERAL_SEQUENTIAL = 3
_CONTAINER = 4
ANY_VERSION = -1
_DATA_WATCH = 2


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types, and does not know this one
    type = 19


class _Children(GetChildren):  # type: ignore[misc]
    """kazoo's, read faster: a queue may have hundreds of tickets, and each newcomer reads the whole list."""

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[str]:
        body = answer[offset + 4 :]
        if not body.isascii():  # a node that is not ours, or is longer than 127 characters
            others: list[str] = super().deserialize(answer, offset)
            return others
        text, size_at = body.decode(), int_struct.unpack_from
        nodes, end = [], 0
        while end < len(body):
            start = end + 4
            end = start + size_at(body, end)[0]
            nodes.append(text[start:end])
        return nodes


class _Watch:
    """Leave a watch on the node. All events go to `Queues`, so kazoo keeps no watcher."""

    def serialize(self) -> bytearray:
        packed: bytearray = super().serialize()  # type: ignore[misc]
        packed[-1] = 1
        return packed


class _WatchData(_Watch, GetData):  # type: ignore[misc]
    pass


class _WatchCreation(_Watch, Exists):  # type: ignore[misc]
    pass


class _Unwatch(Delete):  # type: ignore[misc]
    """kazoo has no such request, but its bytes are those of a deletion."""

    type = 18


def acl(owned: bool) -> Any:
    """Who may use the nodes that we make: only the user in the URL, or everybody if there is none."""
    return CREATOR_ALL_ACL if owned else OPEN_ACL_UNSAFE


def get(path: str, *, watch: bool = False) -> Request:
    return (_WatchData if watch else GetData)(path, None)


def children(path: str) -> Request:
    return _Children(path, None)


def exists(path: str, *, watch: bool = False) -> Request:
    return (_WatchCreation if watch else Exists)(path, None)


def unwatch(path: str) -> Request:
    """Take the watch on a node back."""
    return _Unwatch(path, _DATA_WATCH)


sync = Sync
"""Let the server catch up with the leader, so that the next answers are not old."""


def touch(path: str, data: bytes, version: int = ANY_VERSION) -> Request:
    return SetData(path, data, version)


def create_ticket(path: str, data: bytes, acl: Any) -> Request:
    return Create2(path, data, acl, _EPHEMERAL_SEQUENTIAL)


def create_container(path: str, record: bytes, acl: Any) -> Request:
    return _CreateContainer(path, record, acl, _CONTAINER)


def create(path: str, data: bytes, acl: Any, flags: int = 0) -> Request:
    """Create a node that stays, or with `EPHEMERAL` one that ends with the session."""
    return Create(path, data, acl, flags)


def delete(path: str, version: int = ANY_VERSION) -> Request:
    return Delete(path, version)


def check(path: str, version: int = ANY_VERSION) -> Request:
    """For transactions: fail unless the node is there."""
    return CheckVersion(path, version)


def transaction(*parts: Request) -> Request:
    """All of these or none."""
    return Transaction(list(parts))


def depart(path: str, parent: str, record: bytes, version: int = ANY_VERSION) -> Request:
    """Take out a holder's ticket and record how it departs."""
    return transaction(delete(path, version), touch(parent, record))


def withdraw(path: str, ahead: str, version: int = ANY_VERSION) -> Request:
    """Take out a ticket, provided that the ticket ahead is still there: then this one holds nothing."""
    return transaction(delete(path, version), check(ahead))


def delete_sharing(
    parent: str, node: str, downgrade: str | None, version: int = ANY_VERSION
) -> Request:
    """Take out a ticket that shares, with its downgrade if there is one. It leaves no record."""
    deletion = delete(f"{parent}/{node}", version)
    return deletion if downgrade is None else transaction(deletion, delete(f"{parent}/{downgrade}"))
