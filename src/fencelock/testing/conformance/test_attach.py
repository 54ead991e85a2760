"""A lease that goes from one process to another: `lease.detach()` and `client.attach(name, id)`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, kept_by
from fencelock.testing.conformance.waiting import soon

TTL = 3.0


@pytest.fixture
def portable(cell: Cell) -> None:
    cell.needs("portable")


async def seen_by(cell: Cell, client: Any) -> list[int]:
    inspection = await cell.run(lambda: client.inspect(cell.name))
    return [holder.fence for holder in inspection.holders]


async def test_an_engine_whose_leases_stay_where_they_are_says_so(cell: Cell) -> None:
    if cell.traits.portable:
        return
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    with pytest.raises(fencelock.Unsupported, match="can't be handed to another"):
        lease.detach()
    with pytest.raises(fencelock.Unsupported, match="can't be handed to another"):
        await cell.run(lambda: other.attach(cell.name, lease.id))
    lease.check()
    await cell.run(lease.release)


@pytest.mark.usefixtures("portable")
async def test_another_client_goes_on_with_a_lease(cell: Cell) -> None:
    client, other = cell.client(ttl=TTL), cell.client(ttl=TTL)
    first = await cell.run(client.lock(cell.name).acquire)
    id = first.detach()
    assert first.state is fencelock.LeaseState.RELEASED
    assert not first.lost, "it was given away, not lost"
    with pytest.raises(fencelock.LeaseLost, match="was already detached"):
        first.check()
    await cell.run(first.release)  # nothing to do
    assert await seen_by(cell, other) == [first.fence]
    second = await cell.run(lambda: other.attach(cell.name, id))
    assert (second.fence, second.id, second.name) == (first.fence, id, cell.name)
    assert second.remaining() > TTL / 2
    assert not kept_by(client)
    await asyncio.sleep(1.2 * TTL)  # time itself is under test: it is renewed there now
    await cell.run(second.confirm)
    assert await seen_by(cell, other) == [first.fence]
    await cell.run(second.release)
    assert await seen_by(cell, other) == []
    third = await cell.run(other.lock(cell.name).acquire)
    assert third.fence > second.fence
    assert not third.abandoned, "it was released, though by another client"
    await cell.run(third.release)


@pytest.mark.usefixtures("portable")
async def test_a_ticket_that_is_gone_never_joins_again(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.release)
    for attach in (
        lambda: other.attach(cell.name, lease.id),
        lambda: other.attach(cell.name, "0" * 32),
        lambda: other.attach(cell.name + ":other", lease.id),
    ):
        with pytest.raises(fencelock.LeaseLost, match="to attach: the engine") as caught:
            await cell.run(attach)
        assert lease.id not in str(caught.value)
    inspection = await cell.run(lambda: other.inspect(cell.name))
    assert not inspection.contenders
    assert not kept_by(other)


@pytest.mark.usefixtures("portable")
async def test_two_that_renew_and_one_that_releases(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    first = await cell.run(client.lock(cell.name).acquire)
    second = await cell.run(lambda: other.attach(cell.name, first.id))
    await cell.run(first.renew)
    await cell.run(second.renew)
    await cell.run(second.release)
    with pytest.raises(fencelock.LeaseLost, match="no longer knows it"):
        await cell.run(first.confirm)
    inspection = await cell.run(lambda: other.inspect(cell.name))
    assert not inspection.contenders


@pytest.mark.usefixtures("portable")
async def test_a_ticket_that_waits_is_no_lease(cell: Cell) -> None:
    cell.needs("fifo")
    client, other = cell.client(), cell.client()
    holder = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name, label="waiter").acquire)
    await soon(lambda: len(kept_by(client)) == 2, "the waiter")
    (id,) = {claim.ticket.id for claim in kept_by(client)} - {holder.id}
    with pytest.raises(fencelock.LeaseLost, match="its ticket waits"):
        await cell.run(lambda: other.attach(cell.name, id))
    await cell.run(holder.release)
    assert (await waiter).id == id, "it was not hurt by that"
