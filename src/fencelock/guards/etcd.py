"""Guards for keys in etcd, if the lock stands in the same cluster: both in one transaction."""

from __future__ import annotations

from typing import Any

from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.guards.held import TIMEOUT, accept, engine_of
from fencelock.io.blocking import run

Text = str | bytes


async def _write(lease: Any, changes: dict[Text, Text | None]) -> None:
    engine = engine_of(lease, EtcdEngine, "etcd")
    packed = [
        (_bytes(key), None if value is None else _bytes(value)) for key, value in changes.items()
    ]
    for key, _ in packed:
        if key.startswith(b"fencelock/"):
            raise ValueError(f"{key!r} is where Fencelock keeps its own: use another prefix")
    ticket = lease._claim.ticket
    accept(lease, await engine.write_held(ticket, lease.fence, packed, timeout=TIMEOUT))


class EtcdGuard:
    """Writes keys while the lease's own ticket stands; takes leases of a client for `etcd://`."""

    def put(self, key: Text, value: Text, lease: Any) -> None:
        """Put a key; `StaleFence` if the lease is over."""
        run(_write(lease, {key: value}))

    def delete(self, key: Text, lease: Any) -> None:
        """Delete a key, if it is there; `StaleFence` if the lease is over."""
        run(_write(lease, {key: None}))

    def write(self, changes: dict[Text, Text | None], lease: Any) -> None:
        """Put many keys, delete those whose value is None, all at once; `StaleFence` if the lease is over."""
        run(_write(lease, changes))

    def raise_fence(self, lease: Any) -> None:
        """Make sure that the lease is not over; more is not needed here."""
        run(_write(lease, {}))


class AsyncEtcdGuard:
    """The same for asyncio."""

    async def put(self, key: Text, value: Text, lease: Any) -> None:
        """Put a key; `StaleFence` if the lease is over."""
        await _write(lease, {key: value})

    async def delete(self, key: Text, lease: Any) -> None:
        """Delete a key, if it is there; `StaleFence` if the lease is over."""
        await _write(lease, {key: None})

    async def write(self, changes: dict[Text, Text | None], lease: Any) -> None:
        """Put many keys, delete those whose value is None, all at once; `StaleFence` if the lease is over."""
        await _write(lease, changes)

    async def raise_fence(self, lease: Any) -> None:
        """Make sure that the lease is not over; more is not needed here."""
        await _write(lease, {})


def _bytes(text: Text) -> bytes:
    return text.encode() if isinstance(text, str) else text
