"""What the servers are asked for each step, counted: round trips, requests, watch events."""

from collections import Counter
from typing import Any

import pytest

from holdfast.core.ticket import Owner, Place, Ticket
from holdfast.engines.registry import open_engine
from holdfast.engines.zookeeper.watches import Watches
from holdfast.engines.zookeeper.wire import Wire
from holdfast.io.asyncio import AsyncioIO
from holdfast.primitives.waiting import new_id
from tests.conformance.cells import Cell
from tests.conformance.test_queue import as_face
from tests.engines.zookeeper.seeing import connected, parked
from tests.waiting import soon, within

Trips = list[list[str]]


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> Trips:
    """The requests of each round trip, by kind."""
    seen: Trips = []
    exchange = Wire.exchange

    def noting(wire: Wire, requests: list[Any], until: float) -> Any:
        seen.append([type(request).__name__ for request in requests])
        return exchange(wire, requests, until)

    monkeypatch.setattr(Wire, "exchange", noting)
    return seen


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The watch events that arrive, by kind."""
    seen: Counter[str] = Counter()
    happened = Watches._happened

    def noting(watches: Watches, event: Any) -> None:
        seen[event.type] += 1
        happened(watches, event)

    monkeypatch.setattr(Watches, "_happened", noting)
    return seen


JOIN = ["GetData", "Create2", "GetChildren"]


async def test_acquire_is_one_round_trip_and_release_is_one(cell: Cell, trips: Trips) -> None:
    client = cell.client()
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
    client = cell.client()
    await connected(cell, client)
    trips.clear()
    await cell.run(lambda: client.lock(f"{cell.name}:new").acquire())
    assert trips == [JOIN, ["_CreateContainer", *JOIN]]


async def test_a_refused_attempt_takes_two(cell: Cell, trips: Trips) -> None:
    client, other = cell.client(), cell.client()
    await connected(cell, client)
    await cell.run(lambda: other.lock(cell.name).acquire())
    trips.clear()
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    assert trips == [JOIN, ["GetData", "Transaction"]]


async def test_to_wait_takes_two(cell: Cell, trips: Trips) -> None:
    one, other = cell.client(), cell.client()
    await connected(cell, other)
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    trips.clear()
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    assert trips == [JOIN, ["GetData"]]
    await cell.run(lease.release)
    await within(waiter)


async def test_a_hand_off_is_a_release_and_one_look(
    cell: Cell, trips: Trips, events: Counter[str]
) -> None:
    one, other = cell.client(), cell.client()
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    trips.clear()
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence
    assert sorted(trips) == [["GetChildren", "GetData"], ["Transaction"]]
    assert events == {"DELETED": 1}


async def test_many_renewals_are_one_round_trip(cell: Cell, trips: Trips) -> None:
    client = cell.client()
    leases = [await cell.run(client.lock(f"{cell.name}:{n}").acquire) for n in range(20)]
    tickets = [lease._kept.ticket for lease in leases]
    trips.clear()
    engine = client._engine
    standings = await cell.run(lambda: as_face(cell, engine.renew(tickets, timeout=30)))
    assert {standing.place for standing in standings} == {Place.ADMITTED}
    assert trips == [["SetData"] * 20]


async def test_whoever_waits_hears_of_a_renewal_ahead(
    cell: Cell, trips: Trips, events: Counter[str]
) -> None:
    """It notes when it saw that, and looks at nobody else."""
    one, other = cell.client(), cell.client()
    lease = await cell.run(lambda: one.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: other.lock(cell.name).acquire())
    await parked(other)
    for _ in range(3):
        trips.clear()
        await cell.run(lease.renew)
        await soon(lambda: len(trips) == 2, "the look")
        assert trips == [["SetData"], ["GetData"]]
    assert events == {"CHANGED": 3}
    await cell.run(lease.release)
    await within(waiter)


async def test_500_waiters_and_one_wake_up_per_release(
    zookeeper_url: str, events: Counter[str], complaints: list[str]
) -> None:
    engine = open_engine(zookeeper_url, AsyncioIO())
    name = f"crowd:{new_id()}"
    tickets = [Ticket(name, new_id(), 120.0, Owner("here", n)) for n in range(501)]
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
    assert events == {"DELETED": 60}, "each release tells exactly one, whoever else waits"
    await engine.close()
