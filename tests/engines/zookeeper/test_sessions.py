"""Tickets and the session behind them: two lifetimes, and what is told when either ends."""

import asyncio
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.registry import open_engine
from fencelock.engines.zookeeper import queueing
from fencelock.io.asyncio import AsyncioIO
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, act, queued
from tests.conformance.test_queue import as_face, enter
from tests.engines.zookeeper.observing import Witness, lost, parked
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon, within


@pytest.fixture
def seen(zookeeper: Ensemble, witness: Callable[[Ensemble], Witness]) -> Witness:
    return witness(zookeeper)


async def test_a_holder_whose_session_ended_has_lost_its_lease(cell: Cell, seen: Witness) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=2).acquire())
    seen.end_session(client)
    following = await cell.run(lambda: other.lock(cell.name).acquire(timeout=10))
    assert following.fence > lease.fence
    assert following.abandoned
    await lost(lease)
    again = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, other, 1)
    await cell.run(following.release)
    assert (await within(again)).fence > following.fence, "the client goes on by itself"


async def test_a_waiter_whose_session_ended_is_never_told_that_it_holds(
    cell: Cell, seen: Witness
) -> None:
    """etcd's own lock tells such a waiter that it holds."""
    holder, client, rival = cell.client(), cell.client(), cell.client()
    lease = await cell.run(lambda: holder.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await parked(client)
    behind = cell.actor().start(lambda: rival.lock(cell.name).acquire())
    await parked(rival)
    seen.end_session(client)
    await cell.run(lease.release)
    second = await within(behind)
    assert second.state is fencelock.LeaseState.HELD
    await queued(cell, rival, 1)  # it has joined again, as a newcomer
    assert not waiter.done()
    await cell.run(second.release)
    assert (await within(waiter)).fence > second.fence


async def test_a_ttl_shorter_than_the_session_frees_the_lock(cell: Cell) -> None:
    """The session lasts for ten minutes; the holder's process is killed, and one waits."""
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        holder.call("acquire", name=cell.name, ttl=1.5)
        waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
        await parked(client)
        holder.kill()
        assert (await within(waiter)).abandoned


async def test_repeated_attempts_count_as_watching(cell: Cell) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        holder.call("acquire", name=cell.name, ttl=1.5)
        holder.kill()
    got = await soon(lambda: cell.run(lambda: client.lock(cell.name).try_acquire()), "its turn")
    assert got.abandoned


async def test_the_session_ends_a_ticket_that_was_not_watched(
    zookeeper: Ensemble, open_cell: OpenCell, seen: Witness
) -> None:
    cell = open_cell(f"{zookeeper.url}/tests?session=2")
    client = cell.client()
    assert client.traits.max_overstay == 2
    with Child(cell.face, cell.url) as holder:
        holder.call("acquire", name=cell.name, ttl=2)
        holder.kill()
    await soon(lambda: not seen.tickets(cell.name), "the session to end")
    lease = await cell.run(lambda: client.lock(cell.name, ttl=2).try_acquire())
    assert lease.abandoned


async def test_one_ticket_expires_while_others_of_its_client_live(cell: Cell) -> None:
    engine, rival = cell.client()._context.engine, cell.client()._context.engine
    names = [f"{cell.name}:{number}" for number in range(3)]
    ttls = (1.0, 30.0, 30.0)
    kept = [
        Ticket(name, new_id(), ttl, Owner("here", 1)) for name, ttl in zip(names, ttls, strict=True)
    ]
    mine = [Ticket(name, new_id(), 30.0, Owner("there", 2)) for name in names]
    for ticket in kept:
        await cell.run(partial(enter, cell, engine, ticket))
    for ticket in mine:
        await cell.run(partial(enter, cell, rival, ticket))

    async def first_expired() -> bool:
        """All but the first are renewed meanwhile."""
        renewed = await cell.run(lambda: as_face(cell, engine.renew(kept[1:], timeout=30)))
        assert [standing.place for standing in renewed] == [Place.ADMITTED] * 2
        places = [(await cell.run(partial(enter, cell, rival, ticket))).place for ticket in mine]
        assert places[1:] == [Place.WAITING] * 2
        return places[0] is Place.ADMITTED

    await soon(first_expired, "the first to expire")


async def test_a_ttl_has_to_fit_into_the_session(zookeeper: Ensemble, open_cell: OpenCell) -> None:
    cell = open_cell(f"{zookeeper.url}/tests?session=20")
    client = cell.client()
    with pytest.raises(fencelock.Unsupported, match=r"a ttl of 30 s .* \?session=SECONDS$"):
        await cell.run(lambda: client.lock(cell.name, ttl=30).acquire())
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    with pytest.raises(fencelock.EngineError, match="use a shorter ttl") as caught:
        await cell.run(lambda: lease.renew(ttl=30))
    assert caught.value.outcome == "not applied"
    await cell.run(lambda: lease.renew(ttl=10))
    lease.check()


async def test_the_servers_may_grant_less(
    zookeeper: Ensemble, open_cell: OpenCell, seen: Witness
) -> None:
    cell = open_cell(f"{zookeeper.url}/tests?session=5000")
    client = cell.client()
    with pytest.raises(fencelock.Unsupported, match=r"a session of 900 s.*raise maxSessionTimeout"):
        await cell.run(lambda: client.lock(cell.name, ttl=1000).acquire())
    assert seen.tickets(cell.name) == []
    assert await cell.run(lambda: client.lock(cell.name, ttl=900).acquire())


@pytest.mark.parametrize("face", ["sync"])
async def test_a_forked_child_may_make_its_own_client(cell: Cell) -> None:
    program = f"""
import os, sys, threading, warnings, fencelock
# From Python 3.12 on, to fork beside a thread, such as our connection's, is worth a warning.
warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
client = fencelock.Client({cell.url!r})
lease = client.lock({cell.name!r}).acquire()
child = os.fork()
if child == 0:
    with fencelock.Client({cell.url!r}) as own:
        assert own.lock({cell.name!r}).try_acquire() is None
        with own.lock({cell.name + ":child"!r}):
            pass
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
lease.renew()
lease.release()
client.close()
assert threading.active_count() == 1, threading.enumerate()
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_program_that_does_not_close_its_client_ends(cell: Cell) -> None:
    held = f"fencelock.Client({cell.url!r}).lock({cell.name!r}).acquire()"
    program = f"import fencelock; lease = {held}"
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_a_late_renewal_does_not_forget_a_new_ticket(
    zookeeper_url: str, monkeypatch: pytest.MonkeyPatch, complaints: list[str]
) -> None:
    """The keeper asks about a ticket that has expired, while its caller joins again with the same id."""
    engine: Any = open_engine(zookeeper_url, AsyncioIO())
    ticket = Ticket(f"late:{new_id()}", new_id(), 30.0, Owner("here", 1))
    first = await engine.enter(ticket, if_free=False, timeout=30)
    await engine.evict(ticket.name, timeout=30)
    renew = queueing.renew
    again: list[Any] = []

    async def slowly(queues: Any, pairs: Any, until: float) -> Any:
        monkeypatch.setattr(queueing, "renew", renew)
        known = await renew(queues, pairs, until)
        again.append(await engine.enter(ticket, if_free=False, timeout=30))
        return known

    monkeypatch.setattr(queueing, "renew", slowly)
    (heard,) = await engine.renew([ticket], timeout=30)
    assert heard.place is Place.GONE
    assert again[0].fence > first.fence
    assert (await engine.enter(ticket, if_free=False, timeout=30)).fence == again[0].fence
    assert (await engine.inspect(ticket.name, limit=9, timeout=30)).waiting == 0
    await engine.close()


def test_two_event_loops_each_with_a_client(zookeeper_url: str) -> None:
    name = f"loops:{new_id()}"

    async def turn() -> Any:
        async with fencelock.AsyncClient(zookeeper_url) as client, client.lock(name) as lease:
            return lease.fence

    first, second = asyncio.run(turn()), asyncio.run(turn())
    assert first < second


async def test_a_ticket_belongs_to_the_client_that_entered_it(cell: Cell) -> None:
    """What docs/engines/zookeeper.md says about tickets that are not portable."""
    client, other = cell.client(), cell.client()
    assert not client.traits.portable
    one, another = client._context.engine, other._context.engine
    ticket = Ticket(cell.name, new_id(), 30.0, Owner("host", 1))

    async def place(engine: Any) -> Place:
        standing = await cell.run(lambda: enter(cell, engine, ticket))
        return Place(standing.place)

    assert await place(one) is Place.ADMITTED
    (renewed,) = await act(cell, another.renew([ticket], timeout=5))
    assert renewed.place is Place.GONE
    assert await place(another) is Place.WAITING, "behind itself"
    await cell.run(client.close)
    assert await place(another) is Place.ADMITTED
    third = cell.client()._context.engine
    assert not await act(cell, third.leave(ticket, timeout=5)), "it was not this client's"
    following = await cell.run(lambda: other.lock(cell.name).acquire())
    assert following.abandoned, "but it is gone, as if its holder had died"
