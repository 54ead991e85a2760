"""Guards for nodes in ZooKeeper, if the lock is in the same ensemble: both in one transaction."""

from __future__ import annotations

from typing import Any

from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.engine import ZooKeeperEngine
from fencelock.guards.held import write_held
from fencelock.io.blocking import blocking


class AsyncZooKeeperGuard:
    """`ZooKeeperGuard` for asyncio."""

    async def create(self: object, path: str, data: bytes, lease: Any) -> None:
        """Create a node that everybody may use; `StaleFence` if the lease is over."""
        await _write(requests.create(path, data, requests.acl(owned=False)), lease)

    async def set(self: object, path: str, data: bytes, lease: Any) -> None:
        """Set a node's data; `StaleFence` if the lease is over."""
        await _write(requests.touch(path, data), lease)

    async def delete(self: object, path: str, lease: Any) -> None:
        """Delete a node; `StaleFence` if the lease is over."""
        await _write(requests.delete(path), lease)


class ZooKeeperGuard:
    """Writes nodes while the lease's own ticket is there. It takes leases of a client for `zookeeper://`.

    Paths start at the root of the ensemble. If a node already exists, or does not exist, kazoo's own errors
    say so: `NodeExistsError`, `NoNodeError`.
    """

    create = blocking(AsyncZooKeeperGuard.create)
    set = blocking(AsyncZooKeeperGuard.set)
    delete = blocking(AsyncZooKeeperGuard.delete)


async def _write(change: requests.Request, lease: Any) -> None:
    await write_held(lease, ZooKeeperEngine, "zookeeper", change)
