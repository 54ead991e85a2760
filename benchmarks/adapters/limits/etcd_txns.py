"""etcd: two bare transactions through our own client."""

from __future__ import annotations

from typing import Any, Self

from benchmarks.adapters.contract import AsyncTurns, Turns
from fencelock.core.url import Url
from fencelock.engines.etcd.blocking import BlockingNode
from fencelock.engines.etcd.multiplexed import AsyncioNode
from fencelock.engines.etcd.node import Node
from fencelock.engines.etcd.wire import TXN, created_at, delete, put, txn
from fencelock.io.blocking import run


def address_of(url: str) -> str:
    host, port = Url.parse(url).hosts[0]
    return f"{host}:{port}"


class _Pair:
    """Create a key if it does not exist; delete it if it is ours."""

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self._key = f"bare/{name}".encode()
        self._revision = 0

    async def create(self) -> None:
        request = txn([created_at(self._key, 0)], [put(self._key, b"me", 0)])
        answer = await self._ask(request)
        assert answer.succeeded
        self._revision = answer.header.revision

    async def delete(self) -> None:
        request = txn([created_at(self._key, self._revision)], [delete(self._key)])
        assert (await self._ask(request)).succeeded

    async def _ask(self, request: Any) -> Any:
        return await self.node.call(TXN, request, 5.0, ())


class BareTxns(Turns):
    """It fails if the lock is taken."""

    label = "limit: two bare Txns"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        self._pair = _Pair(BlockingNode(address_of(url), None), name)

    def acquire(self) -> None:
        run(self._pair.create())

    def release(self) -> None:
        run(self._pair.delete())

    def close(self) -> None:
        run(self._pair.node.close())


class AsyncBareTxns(AsyncTurns):
    """The same with asyncio."""

    label = "limit: two bare Txns"

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair

    @classmethod
    async def connect(cls, url: str, name: str) -> Self:
        return cls(_Pair(AsyncioNode(address_of(url), None), name))

    async def acquire(self) -> None:
        await self._pair.create()

    async def release(self) -> None:
        await self._pair.delete()

    async def close(self) -> None:
        await self._pair.node.close()
