"""An engine that has forgotten its fences gets back above what the storage has seen."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.guards import AsyncFencedFile, FencedFile
from fencelock.guards.lease_like import RemoteLease
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import PATIENCE, soon, within

AHEAD = 10**12
"""As if the engine's clock had been eleven days ahead, before it was set back and its memory lost."""


def guard_of(cell: Cell, folder: Path) -> Any:
    return (FencedFile if cell.face == "sync" else AsyncFencedFile)(folder / "data")


async def seen_before(cell: Cell, client: Any, folder: Path) -> int:
    """Have the storage know a fence that the engine, as far as it remembers, has never given."""
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.release)
    newest = int(lease.fence) + AHEAD
    FencedFile(folder / "data").raise_fence(RemoteLease(cell.name, newest, "somebody"))
    return newest


async def test_the_lock_is_taken_again_above_it(cell: Cell, tmp_path: Path) -> None:
    cell.needs("accepts_floor")
    client, other = cell.client(), cell.client()
    newest = await seen_before(cell, client, tmp_path)
    guard = guard_of(cell, tmp_path)
    lease = await cell.run(client.lock(cell.name, guard=guard).acquire)
    assert lease.fence > newest
    assert (
        guard_of(cell, tmp_path)
        .path.with_name("data.fence")
        .read_text()
        .startswith(f"{lease.fence} ")
    )
    seen = await cell.run(lambda: other.inspect(cell.name))
    assert [holder.fence for holder in seen.holders] == [lease.fence], (
        "nothing is left of the first"
    )
    await cell.run(lease.release)
    following = await cell.run(other.lock(cell.name, guard=guard).try_acquire)
    assert following.fence > lease.fence, "it goes on from there"
    await cell.run(following.release)


class Hesitant:
    """A guard that lets one wait for a word before it looks."""

    def __init__(self, guard: Any) -> None:
        self._guard = guard
        self.go_on = threading.Event()

    def raise_fence(self, lease: Any) -> None:
        self.go_on.wait(PATIENCE)
        self._guard.raise_fence(lease)


class AsyncHesitant(Hesitant):
    async def raise_fence(self, lease: Any) -> None:  # type: ignore[override]
        await asyncio.to_thread(self.go_on.wait, PATIENCE)
        await self._guard.raise_fence(lease)


async def test_somebody_is_there_first(cell: Cell, tmp_path: Path) -> None:
    """It has to be given back before it is taken again, and the waiters come first."""
    cell.needs("accepts_floor")
    cell.needs("fifo")
    client, other = cell.client(), cell.client()
    await seen_before(cell, client, tmp_path)
    kind = Hesitant if cell.face == "sync" else AsyncHesitant
    guard = kind(guard_of(cell, tmp_path))
    attempt = cell.actor().start(client.lock(cell.name, guard=guard).try_acquire)
    await soon(lambda: client._context.held, "the lock to be held")
    waiter = cell.actor().start(other.lock(cell.name).acquire)
    await queued(cell, other, 1)
    guard.go_on.set()
    assert await within(attempt) is None
    assert (await within(waiter)).fence > 0


async def test_an_engine_that_numbers_by_itself_says_so(cell: Cell, tmp_path: Path) -> None:
    client = cell.client()
    if cell.traits.accepts_floor:
        return
    await seen_before(cell, client, tmp_path)
    with pytest.raises(fencelock.StaleFence) as caught:
        await cell.run(client.lock(cell.name, guard=guard_of(cell, tmp_path)).acquire)
    assert "numbers by itself" in caught.value.__notes__[0]

    async def nobody_holds() -> bool:
        return not (await cell.run(lambda: client.inspect(cell.name))).holders

    await soon(nobody_holds, "the lock to be given back")
