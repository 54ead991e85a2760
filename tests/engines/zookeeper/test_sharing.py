"""What sharing costs, and what those who vanish leave behind."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import ALONE, READING, Owner, Place, Share, Standing, Ticket
from fencelock.engines.zookeeper.admission import ADMITTED, Blockers, Listing
from fencelock.engines.zookeeper.nodes import downgrade_node, in_order, node_prefix, share_of
from fencelock.engines.zookeeper.transport import Transport
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell, act
from tests.engines.zookeeper.observing import Witness
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon

LIMIT = 5.0


class Desk:
    """One name, and clients who come to it."""

    def __init__(self, cell: Cell, seen: Witness) -> None:
        self.cell = cell
        self.seen = seen
        self.client = cell.client()

    async def join(self, share: Share = ALONE, client: Any = None) -> Ticket:
        ticket = Ticket(self.cell.name, new_id(), 30.0, Owner("host", 1), share)
        await self.enter(ticket, client)
        return ticket

    async def enter(self, ticket: Ticket, client: Any = None) -> Standing:
        engine = (client or self.client)._engine
        standing: Standing = await act(
            self.cell, engine.enter(ticket, if_free=False, timeout=LIMIT)
        )
        return standing

    async def leave(self, ticket: Ticket) -> None:
        assert await act(self.cell, self.client._engine.leave(ticket, timeout=LIMIT))

    async def vanish(self, client: Any, left: int) -> None:
        """End the session of a client, and with it its tickets: so many are left."""
        self.seen.end_session(client)
        await soon(lambda: len(self.seen.tickets(self.cell.name)) == left, "the session to end")


@pytest.fixture
def desk(cell: Cell, zookeeper: Ensemble, witness: Callable[[Ensemble], Witness]) -> Desk:
    return Desk(cell, witness(zookeeper))


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What was sent in each round trip."""
    seen: list[list[str]] = []
    exchange = Transport.exchange

    def noting(transport: Transport, requests: list[Any], until: float) -> Any:
        seen.append([type(request).__name__ for request in requests])
        return exchange(transport, requests, until)

    monkeypatch.setattr(Transport, "exchange", noting)
    return seen


@pytest.mark.parametrize("share", [READING, Share.of(50)])
async def test_to_share_is_one_round_trip(desk: Desk, trips: list[list[str]], share: Share) -> None:
    await desk.leave(await desk.join(share))  # makes the container
    trips.clear()
    await desk.leave(await desk.join(share))
    assert trips == [["GetData", "Create2", "_Children"], ["Delete"]]
    for _ in range(5):
        await desk.join(share)
    trips.clear()
    await desk.leave(await desk.join(share))
    assert trips == [["GetData", "Create2", "_Children"], ["Delete"]]
    writer = await desk.join()
    waiting = await desk.join(share)
    trips.clear()
    await desk.enter(waiting)
    assert trips == [["SetData", "GetData"]], "it looks at the writer only"
    await desk.leave(writer)


async def test_those_who_share_vanish_without_a_word_and_nobody_minds(desk: Desk) -> None:
    ghost = desk.cell.client()
    await desk.leave(await desk.join())
    await desk.join(READING, ghost)
    await desk.vanish(ghost, 0)
    writer = await desk.join()
    assert not (await desk.enter(writer)).abandoned
    await desk.leave(writer)


async def test_one_that_holds_alone_after_them_is_missed(desk: Desk) -> None:
    reader, ghost = await desk.join(READING), desk.cell.client()
    writer = await desk.join(client=ghost)
    heir = await desk.join()
    await desk.leave(reader)
    standing = await desk.enter(writer, ghost)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, False)
    await desk.vanish(ghost, 1)
    standing = await desk.enter(heir)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, True)


async def test_one_that_turned_takes_all_of_it_along(desk: Desk) -> None:
    writer = await desk.join()
    reading = writer._replace(share=READING)
    await desk.enter(reading)
    path = f"/tests/fencelock/{desk.cell.name}"

    def nodes() -> list[str]:
        desk.seen.client.sync("/")  # the server that we ask may be behind the others
        return list(desk.seen.client.get_children(path))

    assert len(nodes()) == 2
    await desk.leave(reading)
    assert nodes() == []
    await desk.enter(writer)
    await desk.enter(reading)
    assert await act(desk.cell, desk.client._engine.evict(desk.cell.name, timeout=LIMIT))
    assert nodes() == []


async def test_a_turn_whose_answer_was_lost(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = await desk.join()
    reading = writer._replace(share=READING)
    exchange = Transport.exchange

    async def losing(transport: Transport, requests: list[Any], until: float) -> Any:
        batch = await exchange(transport, requests, until)
        if type(requests[0]).__name__ == "Transaction":
            monkeypatch.undo()
            raise fencelock.EngineError("lost", outcome="unknown")
        return batch

    monkeypatch.setattr(Transport, "exchange", losing)
    with suppress(fencelock.EngineError):
        await desk.enter(reading)
    assert (await desk.enter(reading)).place is Place.ADMITTED
    assert (await desk.enter(await desk.join(READING))).place is Place.ADMITTED


def nodes(*shares: Share) -> list[str]:
    tickets = [
        Ticket("name", f"{number}", 30.0, Owner("host", 1), share)
        for number, share in enumerate(shares)
    ]
    return [f"{node_prefix(ticket)}{number:010d}" for number, ticket in enumerate(tickets)]


def test_whom_one_has_to_hear_of() -> None:
    one, two, writer, another, reader = queue = nodes(
        Share.of(3), Share.of(3, 2), ALONE, Share.of(3), READING
    )
    listing = Listing.of(queue)
    assert listing.holders() == [one, two]
    assert [listing.blockers_of(node) for node in queue] == [
        ADMITTED,
        ADMITTED,
        Blockers((two,)),
        Blockers((one, two), short=True),
        Blockers((another,)),
    ]
    assert Listing.of(queue[2:]).blockers_of(another) == Blockers((writer,))
    assert Listing.of(queue[3:]).blockers_of(reader) == Blockers((another,))
    queue = nodes(*[Share.of(1)] * 4)
    assert Listing.of(queue).blockers_of(queue[3]) == Blockers(
        (queue[2],), short=True, decisive=False
    )
    queue = nodes(ALONE, READING, READING)
    assert Listing.of(queue).blockers_of(queue[2]) == Blockers((queue[0],))
    queue.append(downgrade_node(queue[0], READING))
    assert Listing.of(queue).holders() == queue[:3]


def test_a_node_says_how_its_ticket_shares() -> None:
    share = Share("a group / of ~ three!", 2, 3)
    (node,) = nodes(share)
    assert share_of(node) == share
    assert share_of(downgrade_node(node, READING)) == READING
    assert share_of(nodes(ALONE)[0]) == ALONE
    assert in_order([downgrade_node(node, READING), node]) == [node]
    assert Listing.of(["tmp", "t.x", node]).nodes == [node]
