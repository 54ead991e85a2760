"""ZooKeeper: create a node, delete it, through kazoo."""

from __future__ import annotations

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.rivals.kazoo import connected


class BareNode(Turns):
    """Two round trips. It knows nothing about other contenders."""

    label = "limit: bare create and delete"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._client = connected(url)
        self._path = f"/{name}/"
        self._client.ensure_path(self._path)

    def acquire(self) -> None:
        self._node = self._client.create(self._path, b"me", ephemeral=True, sequence=True)

    def release(self) -> None:
        self._client.delete(self._node)

    def close(self) -> None:
        self._client.stop()
        self._client.close()
