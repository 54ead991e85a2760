"""Leases that end although their holders go on: `max_hold` and `renew=False`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.primitives.claim import OVERHELD, RAN_OUT
from fencelock.testing.conformance.cells import Cell
from fencelock.testing.conformance.waiting import PATIENCE, within

HOLD = 0.3


async def test_a_holder_that_hangs_gives_way_to_the_next(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    story: list[str] = []

    def told(lease: Any) -> None:
        story.append("told")

    heir = cell.actor()
    lock = client.lock(cell.name, max_hold=HOLD, on_lost=told)
    lease = await cell.run(lock.acquire)
    assert lease.remaining() <= HOLD
    waiting = heir.start(other.lock(cell.name, timeout=PATIENCE).acquire)
    next_one = await within(waiting)
    story.append("passed on")
    assert story == ["told", "passed on"]
    assert next_one.fence > lease.fence
    assert next_one.abandoned
    with pytest.raises(fencelock.LeaseLost, match="max_hold") as caught:
        await cell.run(lease.release)
    assert caught.value.reason == OVERHELD
    await heir.do(next_one.release)


async def test_a_fixed_ttl_runs_out(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    if not client.traits.leases_expire:
        with pytest.raises(fencelock.Unsupported, match="use max_hold"):
            client.lock(cell.name, renew=False)
        return
    lease = await cell.run(client.lock(cell.name, ttl=1.5, renew=False).acquire)
    waiting = cell.actor().start(other.lock(cell.name, ttl=60, timeout=PATIENCE).acquire)
    assert (await within(waiting)).fence > lease.fence
    with pytest.raises(fencelock.LeaseLost) as caught:
        lease.check()
    assert caught.value.reason == RAN_OUT


async def test_a_loss_by_max_hold_cancels_the_body(async_cell: Cell) -> None:
    client = async_cell.client()

    async def hang() -> None:
        async with client.lock(async_cell.name, max_hold=HOLD, on_lost="cancel"):
            await asyncio.sleep(PATIENCE)

    with pytest.raises(fencelock.LeaseLost, match="max_hold"):
        await hang()
