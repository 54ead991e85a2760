"""What sharing costs, and what a holder that vanishes leaves behind."""

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
from tests.engines.zookeeper.observing import Trips, Witness
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon

LIMIT = 5.0


class Queue:
    """The queue of one name, and a client that uses it."""

    def __init__(self, cell: Cell, seen: Witness) -> None:
        self.cell = cell
        self.seen = seen
        self.client = cell.client()

    async def join(self, share: Share = ALONE, client: Any = None) -> Ticket:
        ticket = Ticket(self.cell.name, new_id(), 30.0, Owner("host", 1), share)
        await self.enter(ticket, client)
        return ticket

    async def enter(self, ticket: Ticket, client: Any = None) -> Standing:
        engine = (client or self.client)._context.engine
        standing: Standing = await act(
            self.cell, engine.enter(ticket, if_free=False, timeout=LIMIT)
        )
        return standing

    async def leave(self, ticket: Ticket) -> None:
        assert await act(self.cell, self.client._context.engine.leave(ticket, timeout=LIMIT))

    async def vanish(self, client: Any, left: int) -> None:
        """End the session of a client, and with it its tickets. So many tickets are left."""
        self.seen.end_session(client)
        await soon(lambda: len(self.seen.tickets(self.cell.name)) == left, "the session to end")


@pytest.fixture
def queue(cell: Cell, zookeeper: Ensemble, witness: Callable[[Ensemble], Witness]) -> Queue:
    return Queue(cell, witness(zookeeper))


@pytest.mark.parametrize("share", [READING, Share.of(50)])
async def test_sharing_is_one_round_trip(queue: Queue, trips: Trips, share: Share) -> None:
    await queue.leave(await queue.join(share))  # makes the container
    trips.clear()
    await queue.leave(await queue.join(share))
    assert trips == [["GetData", "Create2", "_Children"], ["Delete"]]
    for _ in range(5):
        await queue.join(share)
    trips.clear()
    await queue.leave(await queue.join(share))
    assert trips == [["GetData", "Create2", "_Children"], ["Delete"]]
    writer = await queue.join()
    waiting = await queue.join(share)
    trips.clear()
    await queue.enter(waiting)
    assert trips == [["SetData", "_WatchData"]], "it looks at the writer only"
    await queue.leave(writer)


async def test_a_reader_that_vanishes_does_not_make_the_name_abandoned(queue: Queue) -> None:
    vanishing = queue.cell.client()
    await queue.leave(await queue.join())
    await queue.join(READING, vanishing)
    await queue.vanish(vanishing, 0)
    writer = await queue.join()
    assert not (await queue.enter(writer)).abandoned
    await queue.leave(writer)


async def test_a_writer_that_vanishes_after_readers_makes_it_abandoned(queue: Queue) -> None:
    reader, vanishing = await queue.join(READING), queue.cell.client()
    writer = await queue.join(client=vanishing)
    behind = await queue.join()
    await queue.leave(reader)
    standing = await queue.enter(writer, vanishing)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, False)
    await queue.vanish(vanishing, 1)
    standing = await queue.enter(behind)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, True)


async def test_a_downgraded_ticket_leaves_no_node_behind(queue: Queue) -> None:
    writer = await queue.join()
    reading = writer._replace(share=READING)
    await queue.enter(reading)
    path = f"/tests/fencelock/{queue.cell.name}"

    def nodes() -> list[str]:
        queue.seen.client.sync("/")  # the server that we ask may be behind the others
        return list(queue.seen.client.get_children(path))

    assert len(nodes()) == 2
    await queue.leave(reading)
    assert nodes() == []
    await queue.enter(writer)
    await queue.enter(reading)
    assert await act(queue.cell, queue.client._context.engine.evict(queue.cell.name, timeout=LIMIT))
    assert nodes() == []


async def test_a_downgrade_whose_answer_was_lost(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await queue.join()
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
        await queue.enter(reading)
    assert (await queue.enter(reading)).place is Place.ADMITTED
    assert (await queue.enter(await queue.join(READING))).place is Place.ADMITTED


def nodes(*shares: Share) -> list[str]:
    tickets = [
        Ticket("name", f"{number}", 30.0, Owner("host", 1), share)
        for number, share in enumerate(shares)
    ]
    return [f"{node_prefix(ticket)}{number:010d}" for number, ticket in enumerate(tickets)]


def test_what_a_ticket_waits_for() -> None:
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


def test_the_name_of_a_node_says_how_its_ticket_shares() -> None:
    share = Share("a group / of ~ three!", 2, 3)
    (node,) = nodes(share)
    assert share_of(node) == share
    assert share_of(downgrade_node(node, READING)) == READING
    assert share_of(nodes(ALONE)[0]) == ALONE
    assert in_order([downgrade_node(node, READING), node]) == [node]
    assert Listing.of(["tmp", "t.x", node]).nodes == [node]
