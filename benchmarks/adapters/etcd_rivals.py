"""The other Python locks on etcd: etcd3gw and tooz over its HTTP gateway, aetcd over gRPC."""

from __future__ import annotations

from typing import Any, Self

import aetcd
import etcd3gw
import tooz.coordination

from benchmarks.adapters.contract import AsyncTurns, Turns
from holdfast.core.url import Url


def _host(url: str) -> tuple[str, int]:
    host, port = Url.parse(url).hosts[0]
    return host, port or 2379


class Etcd3gw(Turns):
    """A new lock object each time, as it is meant to be used; it grants a lease for each."""

    label = "etcd3gw Lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        host, port = _host(url)
        self._client = etcd3gw.client(host=host, port=port, api_path="/v3/")
        self._name = name
        self._lock: Any = None

    def acquire(self) -> None:
        self._lock = self._client.lock(self._name, ttl=30)
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()


class Tooz(Turns):
    label = "tooz Lock (etcd3gw)"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        host, port = _host(url)
        self._coordinator = tooz.coordination.get_coordinator(
            f"etcd3+http://{host}:{port}?api_version=v3", b"bench"
        )
        self._coordinator.start()
        self._name = name.encode()
        self._lock: Any = None

    def acquire(self) -> None:
        self._lock = self._coordinator.get_lock(self._name)
        assert self._lock.acquire()

    def release(self) -> None:
        assert self._lock.release()

    def close(self) -> None:
        self._coordinator.stop()


class Aetcd(AsyncTurns):
    label = "aetcd Lock"

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name.encode()
        self._lock: Any = None

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        host, port = _host(url)
        client = aetcd.Client(host=host, port=port)
        await client.connect()
        return cls(client, name)

    async def acquire(self) -> None:
        self._lock = self._client.lock(self._name, ttl=30)
        assert await self._lock.acquire()

    async def release(self) -> None:
        await self._lock.release()

    async def close(self) -> None:
        await self._client.close()
