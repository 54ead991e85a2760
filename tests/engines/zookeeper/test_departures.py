"""Whether a name is abandoned: never missed, and never claimed without a reason in a crowd."""

import asyncio
import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.security import make_acl

import fencelock
from fencelock.engines.zookeeper.admission import Blockers
from fencelock.engines.zookeeper.entry import Entry
from fencelock.engines.zookeeper.nodes import HolderRecord
from tests.conformance.cells import Cell, OpenCell
from tests.effort import effort
from tests.engines.zookeeper.observing import Witness, parked
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon, within


@pytest.fixture
def seen(zookeeper: Ensemble, witness: Callable[[Ensemble], Witness]) -> Witness:
    return witness(zookeeper)


async def test_if_no_client_dies_the_name_is_never_abandoned(cell: Cell) -> None:
    """Attempts that are refused, time out and succeed, all at once on one name."""
    clients = [cell.client(), cell.client()]
    granted: list[Any] = []

    async def contend(number: int) -> None:
        chance, actor, lock = random.Random(number), cell.actor(), clients[number % 2].lock
        for _ in range(effort(8, 25)):
            timeout = chance.choice((0, 0.02, None))
            try:
                lease = await actor.do(lambda: lock(cell.name).acquire(timeout))  # noqa: B023
            except (fencelock.LockTimeout, fencelock.EngineError):
                continue
            granted.append(lease)
            await actor.do(lease.release)

    await asyncio.gather(*(contend(number) for number in range(6)))
    assert len(granted) > effort(6, 20)
    assert [lease for lease in granted if lease.abandoned] == []


async def test_a_holder_whose_session_ends_while_one_waits(cell: Cell, seen: Witness) -> None:
    holder, client = cell.client(), cell.client()
    await cell.run(lambda: holder.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await parked(client)
    seen.end_session(holder)
    following = await within(waiter)
    assert following.abandoned
    await cell.run(following.release)
    assert not (await cell.run(lambda: client.lock(cell.name).acquire())).abandoned


async def test_a_waiter_that_dies_in_the_middle_does_not_count(cell: Cell, seen: Witness) -> None:
    holder, dying, client = cell.client(), cell.client(), cell.client()
    lease = await cell.run(lambda: holder.lock(cell.name).acquire())
    gone = cell.actor().start(lambda: dying.lock(cell.name).acquire())
    await parked(dying)
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await parked(client)
    first = seen.tickets(cell.name)[0]
    seen.end_session(dying)
    (entry,) = client._context.engine._entries.values()
    await soon(lambda: entry.ahead == first, "the waiter to see that the ticket ahead is gone")
    await cell.run(lease.release)
    following = await within(waiter)
    assert not following.abandoned
    await cell.run(following.release)
    await cell.run((await within(gone)).release)  # it has joined again


async def test_a_waiter_that_withdraws_in_the_middle_does_not_count(cell: Cell) -> None:
    holder, middle, client = cell.client(), cell.client(), cell.client()
    lease = await cell.run(lambda: holder.lock(cell.name).acquire())
    impatient = cell.actor().start(lambda: middle.lock(cell.name).acquire(timeout=3))
    await parked(middle)
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await parked(client)
    with pytest.raises(fencelock.LockTimeout):
        await within(impatient)
    await cell.run(lease.release)
    assert not (await within(waiter)).abandoned


async def test_below_a_root_that_does_not_allow_deleting(
    zookeeper: Ensemble, seen: Witness, open_cell: OpenCell
) -> None:
    """Then no release signal is sent, and the next holder finds out by itself."""
    cell = open_cell(f"{zookeeper.url}/guarded?session=600")
    seen.client.ensure_path("/guarded")
    if not seen.client.exists("/guarded/fencelock"):
        anybody = make_acl("world", "anyone", create=True, read=True, write=True)
        seen.client.create("/guarded/fencelock", acl=[anybody])
    client, other = cell.client(), cell.client()
    for _ in range(2):
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
        await parked(other)
        await cell.run(lease.release)
        following = await within(waiter)
        assert not following.abandoned
        await cell.run(following.release)
    assert seen.tickets(cell.name, "/guarded") == []


@pytest.mark.parametrize(("last_change", "abandoned"), [(7, False), (8, True)])
def test_the_last_change_of_the_queue_is_a_departure(last_change: int, abandoned: bool) -> None:
    """Then the last holder departed, whatever became of the waiter between it and this ticket."""
    entry = Entry("/name", "x.c.0000000003", fence=6, session=1)
    entry.blockers = Blockers(("x.b.0000000002",))
    entry.alive = {"x.b.0000000002": 0.0}  # it may have died
    record = HolderRecord(1, abandoned=False)
    stat = SimpleNamespace(mzxid=7, pzxid=last_change)
    assert entry.finds_abandoned(record, stat, entry.node, now=1.0) == abandoned
