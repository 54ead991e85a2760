"""Combines what the nodes say about names: who holds, who waits, which names are held."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock.core.ticket import Holder, Inspection, Owner, Waiter
from fencelock.engines.redlock.asking import Request
from fencelock.engines.redlock.scripts import LOCKS, name_of
from fencelock.engines.resp.packing import pack


class Scan:
    """Finds the names that are held, by scanning all keys of every node in parts."""

    def __init__(self) -> None:
        self.done: set[int] = set()
        """The nodes whose keys were all seen."""
        self._found: dict[str, set[int]] = {}

    def request(self, node: int, cursor: bytes = b"0") -> Request:
        """The request for the next part of a node's keys."""
        return Request.of(node, [pack([("SCAN", cursor, "MATCH", LOCKS, "COUNT", "500")])])

    def take(self, node: int, replies: list[Any] | None) -> Sequence[Request]:
        """Take in a part. Returns the request for the next one."""
        if replies is None:
            return ()
        cursor, keys = replies[0]
        for key in keys:
            self._found.setdefault(name_of(key), set()).add(node)
        if cursor == b"0":
            self.done.add(node)
            return ()
        return [self.request(node, cursor)]

    def held_on(self, enough: int) -> list[str]:
        """The names that are held on at least so many nodes."""
        return [name for name, nodes in self._found.items() if len(nodes) >= enough]


class _View(NamedTuple):
    """One node's answer to the script `inspect`."""

    fence: int
    dirty: int
    clean: int
    open: int
    waiting: int
    waiters: list[Any]
    id: bytes | None = None
    owner: bytes = b""
    since_ms: int = 0
    left_ms: int = 0


def inspection_of(
    name: str, answers: Sequence[Sequence[Any]], enough: int, limit: int
) -> Inspection:
    """Who holds a name on a majority of nodes, and who waits for it at any node."""
    nodes = [_View(*answer) for answer in answers]
    holders = _holders(nodes, enough)
    dirty, clean = max(node.dirty for node in nodes), max(node.clean for node in nodes)
    if not holders:  # a fence that nobody has and nobody has released was abandoned
        dirty = max([dirty, *(node.fence for node in nodes if node.open and node.id is None)])
    return Inspection(
        name,
        holders,
        _waiters(nodes)[:limit],
        max(node.waiting for node in nodes),
        max(node.fence for node in nodes),
        dirty > clean,
    )


def _holders(nodes: list[_View], enough: int) -> tuple[Holder, ...]:
    votes: dict[bytes, list[_View]] = {}
    for node in nodes:
        if node.id is not None:
            votes.setdefault(node.id, []).append(node)
    return tuple(
        Holder(
            Owner.unpack(seen[0].owner.decode()),
            _agreed([one.fence for one in seen]),
            max(one.since_ms for one in seen) / 1000,
            sorted((one.left_ms for one in seen), reverse=True)[enough - 1] / 1000,
        )
        for seen in votes.values()
        if len(seen) >= enough
    )


def _agreed(fences: list[int]) -> int:
    """The fence that most of a holder's nodes have. Some nodes may be past it, or have missed the raise."""
    return max(fences, key=lambda fence: (fences.count(fence), fence))


def _waiters(nodes: list[_View]) -> tuple[Waiter, ...]:
    """Waiters have no fence yet, and their entries do not expire: they only asked to be woken."""
    since: dict[bytes, tuple[int, str]] = {}
    for node in nodes:
        for entry, ms in zip(node.waiters[::2], node.waiters[1::2], strict=True):
            _, id, owner = entry.split(b" ", 2)
            since[id] = max(since.get(id, (0, "")), (ms, owner.decode()))
    return tuple(
        Waiter(Owner.unpack(owner), 0, ms / 1000, math.inf)
        for ms, owner in sorted(since.values(), reverse=True)
    )
