"""What the servers are asked for each step, counted: round trips, requests, watch events."""

import asyncio
from collections import Counter

import pytest
from kazoo.protocol.connection import EVENT_TYPE_MAP

from fencelock.core.ticket import Departure, Owner, Place, Ticket
from fencelock.engines.registry import open_engine
from fencelock.engines.zookeeper.queues import Queues
from fencelock.io.asyncio import AsyncioIO
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell
from tests.conformance.test_queue import as_face
from tests.engines.zookeeper.observing import Trips, connected, parked
from tests.waiting import soon, within


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The watch events about tickets that arrive, by kind."""
    seen: Counter[str] = Counter()
    happened = Queues.happened

    def recording(queues: Queues, kind: int, path: str) -> None:
        if path not in queues.signals:
            seen[EVENT_TYPE_MAP[kind]] += 1
        happened(queues, kind, path)

    monkeypatch.setattr(Queues, "happened", recording)
    return seen


def _tickets(count: int, ttl: float = 120.0) -> list[Ticket]:
    """Tickets for one new name."""
    name = f"crowd:{new_id()}"
    return [Ticket(name, new_id(), ttl, Owner("here", n)) for n in range(count)]


JOIN = ["GetData", "Create2", "_Children"]


async def test_acquire_is_one_round_trip_and_release_is_one(cell: Cell, trips: Trips) -> None:
    client = cell.client(ttl=600)
    await connected(cell, client)
    trips.clear()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert trips == [JOIN]
    trips.clear()
    await cell.run(lease.release)
    assert trips == [["Transaction"]]
    trips.clear()
    assert await cell.run(lambda: client.lock(cell.name).try_acquire())
    assert trips == [JOIN]


async def test_a_names_first_ticket_takes_one_round_trip_more(cell: Cell, trips: Trips) -> None:
    client = cell.client(ttl=600)
    await connected(cell, client)
    trips.clear()
    await cell.run(lambda: client.lock(f"{cell.name}:new").acquire())
    assert trips == [JOIN, ["_CreateContainer", *JOIN]]


async def test_a_refused_attempt_takes_two(cell: Cell, trips: Trips) -> None:
    client, other = cell.client(ttl=600), cell.client(ttl=600)
    await connected(cell, client)
    await cell.run(lambda: other.lock(cell.name).acquire())
    trips.clear()
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    assert trips == [JOIN, ["GetData", "Transaction"]]


async def test_waiting_takes_two(cell: Cell, trips: Trips) -> None:
    one, other = cell.client(ttl=600), cell.client(ttl=600)
    await connected(cell, other)
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    trips.clear()
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    assert trips == [JOIN, ["_WatchData", "_WatchCreation"]]
    await cell.run(lease.release)
    await within(waiter)


async def test_a_hand_off_is_a_release_and_nothing_else(
    cell: Cell, trips: Trips, events: Counter[str]
) -> None:
    one, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    trips.clear()
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    assert trips == [["Transaction"]], "the next holder asks nothing"
    await soon(lambda: events == {"DELETED": 1}, "the last event")


async def test_the_next_ticket_lists_the_queue_if_a_waiter_left(
    zookeeper_url: str, trips: Trips
) -> None:
    """That the ticket ahead is gone does not say that it held."""
    engine, io = open_engine(zookeeper_url, AsyncioIO()), AsyncioIO()
    holder, between, last = _tickets(3)
    for ticket in (holder, between, last):
        await engine.enter(ticket, if_free=False, timeout=30)
    assert await engine.leave(between, timeout=30)
    trips.clear()
    waiting = asyncio.create_task(engine.park(last, io.now() + 60))
    await soon(lambda: len(trips) == 3, "the look")
    assert trips == [["GetData"], ["_Children", "GetData"], ["_WatchData", "_WatchCreation"]]
    assert not waiting.done()
    assert await engine.leave(holder, timeout=30)
    standing = await waiting
    assert standing is not None
    assert standing.place is Place.ADMITTED
    await engine.close()


async def test_the_next_ticket_reads_the_holder_record_if_there_was_no_signal(
    zookeeper_url: str, trips: Trips
) -> None:
    """However long the queue is."""
    engine, io = open_engine(zookeeper_url, AsyncioIO()), AsyncioIO()
    holder, following = _tickets(2)
    for ticket in (holder, following):
        await engine.enter(ticket, if_free=False, timeout=30)
    trips.clear()
    assert await engine.leave(holder, timeout=30, departure=Departure.LOST)
    standing = await engine.park(following, io.now() + 30)
    assert standing is not None
    assert standing.place is Place.ADMITTED
    assert standing.abandoned
    assert trips == [["Transaction"], ["GetData"]]
    await engine.close()


@pytest.mark.parametrize("departure", [Departure.RELEASED, Departure.LOST])
async def test_a_ticket_that_is_evicted_before_it_knows_that_it_holds(
    zookeeper_url: str, departure: Departure
) -> None:
    engine, io = open_engine(zookeeper_url, AsyncioIO()), AsyncioIO()
    holder, unaware = _tickets(2)
    for ticket in (holder, unaware):
        await engine.enter(ticket, if_free=False, timeout=30)
    assert await engine.leave(holder, timeout=30, departure=departure)
    assert await engine.evict(unaware.name, timeout=30)
    told = await engine.park(unaware, io.now() + 30)
    # If a release signal told it, then it did hold: as if it had been evicted right after.
    assert (told is None) == (departure is Departure.LOST)
    (renewed,) = await engine.renew([unaware], timeout=30)
    assert renewed is not None
    assert renewed.place is Place.GONE
    await engine.close()


async def test_many_renewals_are_one_round_trip(cell: Cell, trips: Trips) -> None:
    client = cell.client(ttl=600)
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(20)]
    tickets = [lease._claim.ticket for lease in leases]
    trips.clear()
    engine = client._context.engine
    standings = await cell.run(lambda: as_face(cell, engine.renew(tickets, timeout=30)))
    assert {standing.place for standing in standings} == {Place.ADMITTED}
    assert trips == [["SetData"] * 20]


async def test_a_waiter_hears_of_a_renewal_ahead(
    cell: Cell, trips: Trips, events: Counter[str]
) -> None:
    """It looks at the ticket ahead, and at no other."""
    one, other = cell.client(ttl=600), cell.client(ttl=600)
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    for _ in range(3):
        trips.clear()
        await cell.run(lease.renew)
        await soon(lambda: len(trips) == 2, "the look")
        assert sorted(trips) == [["SetData"], ["_WatchData"]]
    assert events == {"CHANGED": 3}
    await cell.run(lease.release)
    await within(waiter)


async def test_500_waiters_and_one_wake_up_per_release(
    zookeeper_url: str, events: Counter[str], complaints: list[str]
) -> None:
    engine = open_engine(zookeeper_url, AsyncioIO())
    tickets = _tickets(501)
    for ticket in tickets:
        await engine.enter(ticket, if_free=False, timeout=30)
    events.clear()
    fence = 0
    for place in range(60):
        assert await engine.leave(tickets[place], timeout=30)
        standing = await engine.park(tickets[place + 1], AsyncioIO().now() + 5)
        assert standing is not None
        assert standing.place is Place.ADMITTED
        assert standing.fence > fence
        fence = standing.fence
    # Each release wakes exactly one waiter.
    await soon(lambda: events == {"DELETED": 60}, "the last event")
    await engine.close()


async def test_a_row_of_the_dead_is_taken_out_in_a_few_round_trips(
    zookeeper_url: str, trips: Trips
) -> None:
    """Up to a ticket that lives, which looks after the tickets ahead of it."""
    dead, behind = (open_engine(zookeeper_url, AsyncioIO()) for _ in range(2))
    row = _tickets(30, ttl=1.0)  # they are not renewed
    living = row[9] = row[9]._replace(ttl=120.0)
    for ticket in row:
        await dead.enter(ticket, if_free=False, timeout=30)
    last = row[0]._replace(id=new_id(), ttl=120.0)
    await behind.enter(last, if_free=False, timeout=30)  # from now on it counts

    async def taken() -> bool:
        trips.clear()
        await behind.enter(last, if_free=False, timeout=30)
        return ["Transaction"] * 20 in trips

    await soon(taken, "the dead to be taken out")
    assert len(trips) == 11, "five of them read the row: 1, 2, 4, 8 and the rest"
    seen = await dead.inspect(last.name, limit=0, timeout=30)
    assert seen.waiting == 10, "the living ticket looks after those ahead of it"
    await dead.leave(living, timeout=30)
    standing = await behind.enter(last, if_free=False, timeout=30)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, True)
    await behind.leave(last, timeout=30)
    for engine in (dead, behind):
        await engine.close()
