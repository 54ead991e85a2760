"""Two applications that share an engine, each with a namespace of its own, are strangers."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

from fencelock.testing.conformance.cells import Cell


async def test_two_namespaces_are_strangers(cell: Cell) -> None:
    spaces = [f"{word}-{uuid4().hex}" for word in ("shop", "bank")]
    clients = [cell.client(namespace=space, label=space) for space in spaces]
    leases = [await cell.run(client.lock("x").try_acquire) for client in clients]
    assert [lease and lease.name for lease in leases] == [f"{space}/x" for space in spaces]
    for client in clients:
        assert await cell.run(client.names) == ["x"]
        assert await cell.run(partial(client.names, "y*")) == []
        seen = await cell.run(partial(client.inspect, "x"))
        assert (seen.name, seen.holders[0].owner.label) == ("x", client.namespace)
    assert await cell.run(partial(clients[0].break_lock, "x"))
    assert [bool(lease) for lease in leases] == [False, True]
    for client in clients:
        await _use_everything(cell, client)


async def _use_everything(cell: Cell, client: Any) -> None:
    """Take what another application would keep for itself, and keep it."""
    work = _locks_t if cell.face == "sync" else _async_locks_t
    assert await cell.run(partial(client.transaction("timeout", timeout=30).run, work))
    assert await cell.run(client.lock("t").try_acquire)
    both = await cell.run(client.lock_all(["b", "a"]).try_acquire)
    assert list(both) == ["a", "b"]
    assert both["b"].name == f"{client.namespace}/b"
    assert await cell.run(partial(client.election("boss", client.namespace).campaign, timeout=0))
    leader = await cell.run(client.election("boss").leader)
    assert leader.value == client.namespace
    if client.traits.supports_sharing:
        assert await cell.run(client.rwlock("prices").write().try_acquire)
        assert await cell.run(client.semaphore("api", 1).try_acquire)
    if client.traits.supports_rates:
        assert await cell.run(client.rate("partner", 1).try_acquire)
    if client.traits.supports_notes:
        done = partial(_answer, client) if cell.face == "sync" else partial(_async_answer, client)
        assert await cell.run(partial(client.once, "charge", done)) == client.namespace


def _locks_t(transaction: Any) -> bool:
    return bool(transaction.lock("t"))


async def _async_locks_t(transaction: Any) -> bool:
    return bool(await transaction.lock("t"))


def _answer(client: Any) -> Any:
    return client.namespace


async def _async_answer(client: Any) -> Any:
    return client.namespace
