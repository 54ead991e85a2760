"""The requests that the engine sends, and how one reads what comes back."""

from __future__ import annotations

from typing import Any, NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError
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
    write_string,
)
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

Request = Any
"""One of kazoo's: a tuple that can be serialized and knows how to read its answer."""

_EPHEMERAL = 1
_EPHEMERAL_SEQUENTIAL = 3
_CONTAINER = 4
_ANY_VERSION = -1
_DATA_WATCH = 2


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types, and does not know this one
    type = 19


class _Children(GetChildren):  # type: ignore[misc]
    """kazoo's, read faster: of those who wait there may be hundreds, and each newcomer reads of them all."""

    @classmethod
    def deserialize(cls, answer: bytes, offset: int) -> list[str]:
        body = answer[offset + 4 :]
        if not body.isascii():  # not ours, or one that is longer than 127 characters
            others: list[str] = super().deserialize(answer, offset)
            return others
        text, size_at = body.decode(), int_struct.unpack_from
        nodes, end = [], 0
        while end < len(body):
            start = end + 4
            end = start + size_at(body, end)[0]
            nodes.append(text[start:end])
        return nodes


class _Listen(Exists):  # type: ignore[misc]
    """Wait for a node to be made. Who waits for it is known to us, and need not be known to kazoo."""

    def serialize(self) -> bytearray:
        packed: bytearray = super().serialize()
        packed[-1] = 1
        return packed


class _Unlisten(Exists):  # type: ignore[misc]
    """Take back such a wish, which kazoo can't."""

    type = 18

    def serialize(self) -> bytes:
        return bytes(write_string(self.path) + int_struct.pack(_DATA_WATCH))

    @classmethod
    def deserialize(cls, _answer: bytes, _offset: int) -> bool:
        return True


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
    return _Children(path, None)


def exists(path: str) -> Request:
    return Exists(path, None)


def listen(path: str) -> Request:
    """Ask to be told when a node is made that is not there."""
    return _Listen(path, None)


def unlisten(path: str) -> Request:
    return _Unlisten(path, None)


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


def release(path: str, farewell: str, parent: str, mark: bytes, acl: Any) -> Request:
    """The same, with a farewell: it is made and gone at once, but whoever listens for it is told."""
    return Transaction(
        [
            Create(farewell, b"", acl, 0),
            Delete(farewell, _ANY_VERSION),
            *depart(path, parent, mark).operations,
        ]
    )


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


def forbidden(reply: Any, before: int) -> bool:
    """Whether a transaction failed because the server does not allow a part of it before this one."""
    return isinstance(reply, list) and any(isinstance(part, NoAuthError) for part in reply[:before])


def done(reply: Any) -> bool:
    """Whether all parts of a transaction were carried out."""
    return isinstance(reply, list) and not any(isinstance(part, Exception) for part in reply)


def missing(reply: Any, place: int = 0) -> bool:
    """Whether a transaction failed because the ticket, with which it mostly begins, is not there."""
    return isinstance(reply, list) and gone(reply[place])
