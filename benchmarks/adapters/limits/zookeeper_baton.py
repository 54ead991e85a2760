"""ZooKeeper: each contender watches its own node, and writes to the next one's. A hand-off, not a lock."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.rivals.kazoo import connected


class ZooKeeperBaton(Turns):
    """A write, a push, and the read that a watch needs, through kazoo."""

    label = "limit: one write, one read, one push"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = connected(url)
        self._sit_down(name, seat, seats)

    def _sit_down(self, name: str, seat: int, seats: int) -> None:
        self._told = threading.Event()
        self._own, self._next = _path(name, seat), _path(name, (seat + 1) % seats)
        self._client.ensure_path(self._own)
        self._listen()

    def _listen(self) -> None:
        self._told.clear()
        self._client.get(self._own, watch=lambda _: self._told.set())

    def acquire(self) -> None:
        self._told.wait()
        self._listen()

    def release(self) -> None:
        self._client.set(self._next, b"t")

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    @classmethod
    def crowd(cls, url: str, name: str, taken: Sequence[int], seats: int) -> Sequence[Turns]:
        first = cls(url, name, taken[0], seats)
        others = [cls.__new__(cls) for _ in taken[1:]]
        for seat, other in zip(taken[1:], others, strict=True):
            other._client = first._client
            other._sit_down(name, seat, seats)
        return [first, *others]

    @classmethod
    def kick_off(cls, url: str, name: str) -> None:
        client = connected(url)
        client.set(_path(name, 0), b"t")
        client.stop()
        client.close()


def _path(name: str, seat: int) -> str:
    return f"/baton/{name}/{seat}"
