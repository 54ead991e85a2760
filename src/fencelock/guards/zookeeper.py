"""Guards for nodes in ZooKeeper, if the lock stands in the same ensemble: both in one transaction."""

from __future__ import annotations

from typing import Any

from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.engine import ZooKeeperEngine
from fencelock.guards.held import TIMEOUT, accept, engine_of
from fencelock.io.blocking import run


async def _write(lease: Any, change: Any) -> None:
    engine = engine_of(lease, ZooKeeperEngine, "zookeeper")
    ticket = lease._claim.ticket
    accept(lease, await engine.write_held(ticket, lease.fence, change, timeout=TIMEOUT))


def _create(path: str, data: bytes) -> Any:
    return requests.create(path, data, requests.acl(owned=False))


class ZooKeeperGuard:
    """Writes nodes while the lease's own ticket stands; takes leases of a client for `zookeeper://`.

    Paths are whole, from the root. If a node is there already, or is not, kazoo's own errors say so:
    `NodeExistsError`, `NoNodeError`.
    """

    def create(self, path: str, data: bytes, lease: Any) -> None:
        """Create a node that everybody may use; `StaleFence` if the lease is over."""
        run(_write(lease, _create(path, data)))

    def set(self, path: str, data: bytes, lease: Any) -> None:
        """Set a node's data; `StaleFence` if the lease is over."""
        run(_write(lease, requests.touch(path, data)))

    def delete(self, path: str, lease: Any) -> None:
        """Delete a node; `StaleFence` if the lease is over."""
        run(_write(lease, requests.delete(path)))


class AsyncZooKeeperGuard:
    """The same for asyncio."""

    async def create(self, path: str, data: bytes, lease: Any) -> None:
        """Create a node that everybody may use; `StaleFence` if the lease is over."""
        await _write(lease, _create(path, data))

    async def set(self, path: str, data: bytes, lease: Any) -> None:
        """Set a node's data; `StaleFence` if the lease is over."""
        await _write(lease, requests.touch(path, data))

    async def delete(self, path: str, lease: Any) -> None:
        """Delete a node; `StaleFence` if the lease is over."""
        await _write(lease, requests.delete(path))
