"""The requests that the engine sends, and how one reads what comes back."""

from __future__ import annotations

from typing import Any, NamedTuple

from kazoo.exceptions import NoNodeError
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
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

Request = Any
"""One of kazoo's: a tuple that can be serialized and knows how to read its answer."""

_EPHEMERAL = 1
_EPHEMERAL_SEQUENTIAL = 3
_CONTAINER = 4
_ANY_VERSION = -1


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types, and does not know this one
    type = 19


class Stat(NamedTuple):
    """What ZooKeeper keeps of a node besides its data."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    """The session of an ephemeral node."""
    size: int
    children: int
    pzxid: int
    """The transaction that last added or removed a child."""

    @property
    def creations(self) -> int:
        """How many children were ever added, which is the next one's sequence number."""
        return (self.cversion + self.children) // 2


def acl(owned: bool) -> Any:
    """Who may touch what we make: only the user of the URL, or everybody if there is none."""
    return CREATOR_ALL_ACL if owned else OPEN_ACL_UNSAFE


def get(path: str, watch: Any = None) -> Request:
    return GetData(path, watch)


def children(path: str) -> Request:
    return GetChildren(path, None)


def exists(path: str) -> Request:
    return Exists(path, None)


def sync(path: str) -> Request:
    """Let the server catch up with the leader, so that what is read after it is not old."""
    return Sync(path)


def touch(path: str, data: bytes, version: int = _ANY_VERSION) -> Request:
    return SetData(path, data, version)


def create_ticket(path: str, data: bytes, acl: Any) -> Request:
    return Create2(path, data, acl, _EPHEMERAL_SEQUENTIAL)


def create_container(path: str, mark: bytes, acl: Any) -> Request:
    return _CreateContainer(path, mark, acl, _CONTAINER)


def create_plain(path: str, acl: Any) -> Request:
    return Create2(path, b"", acl, 0)


def delete(path: str, version: int = _ANY_VERSION) -> Request:
    return Delete(path, version)


def delete_both(path: str, turn: str, version: int = _ANY_VERSION) -> Request:
    """Take out a ticket together with the node that says that it shares."""
    return Transaction([Delete(path, version), Delete(turn, _ANY_VERSION)])


def turn(path: str, slip: bytes, turned: str, parent: str, mark: bytes, acl: Any) -> Request:
    """Let one that holds alone share from now on. Its own node changes, for those who watch it."""
    return Transaction(
        [
            SetData(path, slip, _ANY_VERSION),
            Create(turned, b"", acl, _EPHEMERAL),
            SetData(parent, mark, _ANY_VERSION),
        ]
    )


def note(path: str, parent: str, mark: bytes, version: int) -> Request:
    """Leave a mark as one that holds, provided that nobody else has since it was read."""
    return Transaction([CheckVersion(path, _ANY_VERSION), SetData(parent, mark, version)])


def depart(path: str, parent: str, mark: bytes, version: int = _ANY_VERSION) -> Request:
    """Take out a holder's ticket and leave a mark, both or neither."""
    return Transaction([Delete(path, version), SetData(parent, mark, _ANY_VERSION)])


def withdraw(path: str, ahead: str, version: int = _ANY_VERSION) -> Request:
    """Take out a ticket, provided that the one ahead of it is still there: so it holds nothing."""
    return Transaction([Delete(path, version), CheckVersion(ahead, _ANY_VERSION)])


def create(path: str, data: bytes, acl: Any) -> Request:
    return Create2(path, data, acl, 0)


def write_held(ticket: str, change: Request) -> Request:
    """Do somebody's own change, provided that the ticket is still there."""
    return Transaction([CheckVersion(ticket, _ANY_VERSION), change])


def add_note(ticket: str, path: str, data: bytes, shelf: str, acl: Any) -> Request:
    """Note something down for the first time, provided that the ticket is still there."""
    return Transaction(
        [
            CheckVersion(ticket, _ANY_VERSION),
            Create(path, data, acl, 0),
            SetData(shelf, b"", _ANY_VERSION),
        ]
    )


def remove_note(path: str, version: int, shelf: str, added: int) -> Request:
    """Take out a note, provided that it is the one that was seen, and not one of the same name after it."""
    return Transaction([CheckVersion(shelf, added), Delete(path, version)])


def gone(reply: Any) -> bool:
    """Whether a node that was asked for is not there."""
    return isinstance(reply, NoNodeError)


def done(reply: Any) -> bool:
    """Whether all parts of a transaction were carried out."""
    return isinstance(reply, list) and not any(isinstance(part, Exception) for part in reply)


def missing(reply: Any) -> bool:
    """Whether a transaction failed because the ticket that it begins with is not there."""
    return isinstance(reply, list) and gone(reply[0])
