"""Guards for keys in etcd, if the lock is in the same cluster: both in one transaction."""

from __future__ import annotations

from typing import Any

from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.guards.held import write_held
from fencelock.io.blocking import blocking

Text = str | bytes


class AsyncEtcdGuard:
    """`EtcdGuard` for asyncio."""

    async def put(self: object, key: Text, value: Text, lease: Any) -> None:
        """Put a key; `StaleFence` if the lease is over."""
        await AsyncEtcdGuard.write(self, {key: value}, lease)

    async def delete(self: object, key: Text, lease: Any) -> None:
        """Delete a key, if it is there; `StaleFence` if the lease is over."""
        await AsyncEtcdGuard.write(self, {key: None}, lease)

    async def write(self: object, changes: dict[Text, Text | None], lease: Any) -> None:
        """Put many keys in one transaction; None as value deletes. `StaleFence` if the lease is over."""
        packed = [
            (_bytes(key), None if value is None else _bytes(value))
            for key, value in changes.items()
        ]
        for key, _ in packed:
            if key.startswith(b"fencelock/"):
                raise ValueError(f"{key!r}: Fencelock keeps its locks there, use another prefix")
        await write_held(lease, EtcdEngine, "etcd", packed)

    async def raise_fence(self: object, lease: Any) -> None:
        """Make sure that the lease is not over. This guard needs no other read barrier."""
        await AsyncEtcdGuard.write(self, {}, lease)


class EtcdGuard:
    """Writes keys while the lease's own ticket is there. It takes leases of a client for `etcd://`."""

    put = blocking(AsyncEtcdGuard.put)
    delete = blocking(AsyncEtcdGuard.delete)
    write = blocking(AsyncEtcdGuard.write)
    raise_fence = blocking(AsyncEtcdGuard.raise_fence)


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text
