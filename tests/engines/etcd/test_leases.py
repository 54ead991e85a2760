"""Tickets, the leases they live on, and that nothing is left behind."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Departure, Owner, Place, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster
from tests.waiting import PATIENCE, eventually, soon


@pytest.fixture
def cell(etcd_cluster: EtcdCluster, open_cell: OpenCell) -> Cell:
    return open_cell(etcd_cluster.url)


def place(engine: Engine, one: Ticket) -> Place:
    """Where it stands, and renew it."""
    (standing,) = run(engine.renew([one], timeout=30))
    assert standing is not None
    return standing.place


def ticket(name: str, ttl: float = 30.0) -> Ticket:
    return Ticket(name, new_id(), ttl, Owner("host", 1, "somebody"))


async def test_a_waiter_whose_lease_is_revoked_is_not_told_that_it_holds(
    cell: Cell, etcd_cluster: EtcdCluster
) -> None:
    """etcd's own lock service makes this mistake."""
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: other.lock(cell.name, ttl=60).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=60).acquire())
    await queued(cell, other, 1)
    old = (await cell.run(lambda: other.inspect(cell.name))).waiters[0].fence
    _, key = server_state.tickets(etcd_cluster, cell.name).values()
    etcd_cluster.ctl("lease", "revoke", f"{server_state.lease_of(etcd_cluster, key):x}")

    async def joined_anew() -> bool:
        seen = await cell.run(lambda: other.inspect(cell.name))
        return [one.fence for one in seen.waiters] > [old]

    await soon(joined_anew, "it to join anew")
    assert not waiter.done()
    await cell.run(lease.release)
    got = await waiter
    assert got.fence > old
    assert not got.abandoned


async def test_a_holder_whose_lease_is_revoked_loses_it(
    cell: Cell, etcd_cluster: EtcdCluster
) -> None:
    client = cell.client()
    actor = cell.actor()
    lease = await actor.do(lambda: client.lock(cell.name, ttl=3).acquire())
    key = server_state.tickets(etcd_cluster, cell.name)[lease.id]
    etcd_cluster.ctl("lease", "revoke", f"{server_state.lease_of(etcd_cluster, key):x}")
    assert await actor.do(lambda: lease.lost.wait(PATIENCE))
    again = await cell.run(lambda: client.lock(cell.name, ttl=3).acquire())  # on a new lease
    assert again.fence > lease.fence
    assert again.abandoned, "nobody released"
    await cell.run(again.release)
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_leases_that_ended_while_no_ticket_needed_them(
    cell: Cell, etcd_cluster: EtcdCluster
) -> None:
    """Expired in a long pause, or revoked: they are granted anew, and no caller notices."""
    before = server_state.leases(etcd_cluster)
    client = cell.client()
    first = await cell.run(lambda: client.lock(cell.name).acquire())
    await cell.run(first.release)
    for lease in server_state.leases(etcd_cluster) - before:
        etcd_cluster.ctl("lease", "revoke", f"{lease:x}")
    second = await cell.run(lambda: client.lock(cell.name).acquire())
    assert second.fence > first.fence
    markers = server_state.lease_of(etcd_cluster, Keys.of(cell.name).marker.decode())
    etcd_cluster.ctl("lease", "revoke", f"{markers:x}")
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    await cell.run(second.release)  # leaves a marker, on a lease that has gone
    await cell.run((await waiter).release)
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_tickets_of_one_ttl_share_a_lease(cell: Cell, etcd_cluster: EtcdCluster) -> None:
    before = server_state.leases(etcd_cluster)
    client = cell.client()
    for ttl, number in ((30, 0), (30, 1), (29.5, 2), (60, 3)):
        await cell.run(client.lock(f"{cell.name}:{number}", ttl=ttl).acquire)
    new = server_state.leases(etcd_cluster) - before
    assert len(new) == 2, "for 30 s and for 60 s"


def test_a_ticket_that_is_not_renewed_is_taken_out_though_its_lease_lives(
    etcd_cluster: EtcdCluster,
) -> None:
    """Each ticket has its own ttl. Others of the same client are renewed all the time."""
    name = f"own:{new_id()}"
    engine, behind = (open_engine(etcd_cluster.url, BlockingIO()) for _ in range(2))
    dead, alive, heir = ticket(name, 3.0), ticket(name + ":2", 3.0), ticket(name)
    assert run(engine.enter(dead, if_free=False, timeout=30)).place is Place.ADMITTED
    run(engine.enter(alive, if_free=False, timeout=30))
    assert run(behind.enter(heir, if_free=False, timeout=30)).place is Place.WAITING
    lease = server_state.lease_of(etcd_cluster, server_state.tickets(etcd_cluster, name)[dead.id])

    def admitted() -> bool:
        assert place(engine, alive) is Place.ADMITTED
        standing = run(behind.enter(heir, if_free=False, timeout=30))
        return bool(standing.place is Place.ADMITTED and standing.abandoned)

    eventually(admitted, "the heir to be admitted")
    assert lease in server_state.leases(etcd_cluster)
    assert place(engine, dead) is Place.GONE
    for one in (engine, behind):
        run(one.leave(heir, timeout=30))
        run(one.leave(alive, timeout=30))
        run(one.close())
    assert server_state.of(etcd_cluster, name) == []


def test_a_shorter_ttl_takes_no_time_away(etcd_cluster: EtcdCluster) -> None:
    name = f"shorter:{new_id()}"
    engine, behind = (open_engine(etcd_cluster.url, BlockingIO()) for _ in range(2))
    long, heir = ticket(name, 60.0), ticket(name)
    run(engine.enter(long, if_free=False, timeout=30))
    short = long._replace(ttl=0.5)
    run(engine.renew([short], timeout=30))
    assert 50 < run(behind.enter(heir, if_free=False, timeout=30)).recheck <= 60
    for one in (long, heir):
        run(engine.leave(one, timeout=30))
    for opened in (engine, behind):
        run(opened.close())


def test_trying_again_and_again_takes_out_a_dead_holder(etcd_cluster: EtcdCluster) -> None:
    name = f"tries:{new_id()}"
    engine, other = (open_engine(etcd_cluster.url, BlockingIO()) for _ in range(2))
    run(engine.enter(ticket(name, 1.0), if_free=False, timeout=30))

    def got() -> bool:
        return bool(
            run(other.enter(ticket(name), if_free=True, timeout=30)).place is Place.ADMITTED
        )

    eventually(got, "the dead holder to be taken out")
    for opened in (engine, other):
        run(opened.close())
    run(open_engine(etcd_cluster.url, BlockingIO()).evict(name, timeout=30))


@pytest.mark.slow
async def test_without_waiters_a_dead_process_is_gone_with_its_lease(
    cell: Cell, etcd_cluster: EtcdCluster
) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as child:
        child.call("acquire", name=cell.name, ttl=2)
        child.kill()
    longest = 2 + client.traits.max_overstay
    await soon(
        lambda: not server_state.tickets(etcd_cluster, cell.name),
        "the end of its lease",
        longest + 5,
    )
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert lease.abandoned, "a marker was left"
    await cell.run(lease.release)
    assert server_state.of(etcd_cluster, cell.name) == []


async def test_an_abandoned_name_stays_so_until_a_release(cell: Cell) -> None:
    engine = cell.client()._context.engine

    async def on(coroutine: Any) -> Any:
        return await cell.run(lambda: run(coroutine) if cell.face == "sync" else coroutine)

    first, second, third = (ticket(cell.name) for _ in range(3))
    await on(engine.enter(first, if_free=False, timeout=30))
    await on(engine.enter(second, if_free=False, timeout=30))
    await on(engine.enter(third, if_free=False, timeout=30))
    # The second one holds by its position, never knew it, and withdraws: nothing is abandoned.
    assert await on(engine.leave(first, timeout=30))
    assert await on(engine.leave(second, timeout=2, departure=Departure.WITHDRAWN))
    standing = await on(engine.enter(third, if_free=False, timeout=30))
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, False)
    assert await on(engine.leave(third, timeout=2, departure=Departure.LOST))
    assert (await on(engine.inspect(cell.name, limit=1, timeout=30))).abandoned
    again = await on(engine.enter(first, if_free=False, timeout=30))
    assert again.abandoned
    assert await on(engine.leave(first, timeout=30))
    assert not (await on(engine.inspect(cell.name, limit=1, timeout=30))).abandoned


async def test_a_thousand_attempts_leave_nothing(etcd_cluster: EtcdCluster) -> None:
    """Refused, timed out, cancelled at any moment: no key, no lease, no watch is left."""
    name = f"thousand:{new_id()}"
    keys, leases = set(server_state.keys(etcd_cluster)), server_state.leases(etcd_cluster)
    watchers = server_state.watchers(etcd_cluster)
    async with (
        fencelock.AsyncClient(etcd_cluster.url) as holder,
        fencelock.AsyncClient(etcd_cluster.url) as client,
    ):
        lease = await holder.lock(name).acquire()

        async def attempt(number: int) -> None:
            # On a busy machine some get no answer in time. They must leave nothing either.
            if number % 3 == 0:
                with suppress(fencelock.EngineError):
                    assert await client.lock(name).try_acquire() is None
            elif number % 3 == 1:
                with suppress(fencelock.LockTimeout, fencelock.EngineError):
                    await client.lock(name).acquire(timeout=0.01)
            else:
                task = asyncio.create_task(client.lock(name).acquire())
                await asyncio.sleep(number / 100_000)
                task.cancel()
                with suppress(asyncio.CancelledError, fencelock.EngineError):
                    await task

        for start in range(0, 1_000, 50):
            await asyncio.gather(*(attempt(number) for number in range(start, start + 50)))
        # The client takes out in the background what was cancelled in the middle of a request.
        await soon(
            lambda: list(server_state.tickets(etcd_cluster, name)) == [lease.id],
            "only the holder's ticket",
            timeout=30,
        )
        assert len(server_state.leases(etcd_cluster) - leases) == 2, "one for each client"
        await soon(
            lambda: server_state.watchers(etcd_cluster) == watchers, "the watches to be gone"
        )
        await lease.release()
    assert set(server_state.keys(etcd_cluster)) <= keys
    assert server_state.leases(etcd_cluster) <= leases
