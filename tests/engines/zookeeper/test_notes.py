"""What notes cost, and what becomes of their nodes."""

from collections.abc import Callable
from typing import Any

import pytest

from fencelock.core.ticket import READING, Place, Ticket
from fencelock.engines.zookeeper import notes
from fencelock.engines.zookeeper.batch import done
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell, act
from tests.engines.zookeeper.observing import Trips, Witness
from tests.engines.zookeeper.test_sharing import LIMIT, Queue
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon


class NotedQueue(Queue):
    """A queue whose holders store notes."""

    @property
    def engine(self) -> Any:
        return self.client._context.engine

    async def remember(self, ticket: Ticket, text: str, keep: float = 600) -> bool:
        stored = self.engine.remember(ticket, text, keep=keep, timeout=LIMIT)
        return bool(await act(self.cell, stored))

    async def recall(self, ticket: Ticket) -> str | None:
        text: str | None = await act(self.cell, self.engine.recall(ticket.name, timeout=LIMIT))
        return text

    async def tidy(self, name: str) -> None:
        await act(self.cell, self.engine._notes.tidy(name, self.engine._io.now() + LIMIT))

    async def ask(self, request: Any) -> Any:
        until = self.engine._io.now() + LIMIT
        (reply,) = await act(self.cell, self.engine._queues.ask(until, request))
        return reply

    def place(self, name: str) -> tuple[str, str]:
        """The bucket of a name, and the node of its note."""
        bucket, path = self.engine._notes._place(name)
        return bucket, path

    async def elsewhere(self, ticket: Ticket) -> Ticket:
        """A holder of another name with the same bucket."""
        bucket = self.place(ticket.name)[0]
        names = (f"{ticket.name}:{number}" for number in range(10_000))
        name = next(name for name in names if self.place(name)[0] == bucket)
        other = ticket._replace(name=name, id=new_id())
        await self.enter(other)
        return other


@pytest.fixture
def queue(
    cell: Cell,
    zookeeper: Ensemble,
    witness: Callable[[Ensemble], Witness],
    monkeypatch: pytest.MonkeyPatch,
) -> NotedQueue:
    monkeypatch.setattr(notes, "_TIDY_ONE_IN", 1_000_000_000)  # no client tidies up by chance
    return NotedQueue(cell, witness(zookeeper))


async def test_what_it_costs(queue: NotedQueue, trips: Trips) -> None:
    holder = await queue.join()
    assert await queue.remember(holder, "makes the bucket, if need be")
    assert await queue.recall(holder), "now the servers' time is known"
    other = await queue.elsewhere(holder)
    trips.clear()
    for text in ("added", "replaced"):
        assert await queue.remember(other, text)
        assert await queue.recall(other) == text
    assert trips == [["Transaction", "Transaction"], ["Sync", "GetData"]] * 2


async def test_a_note_whose_time_is_over_is_deleted_by_other_clients(queue: NotedQueue) -> None:
    holder = await queue.join()
    other = await queue.elsewhere(holder)
    assert await queue.remember(holder, "short", keep=0.001)
    assert await queue.remember(other, "long")
    (bucket, over), (_, path) = queue.place(holder.name), queue.place(other.name)

    async def forgotten() -> bool:
        return await queue.recall(holder) is None

    await soon(forgotten, "its end")
    await queue.tidy(other.name)
    queue.seen.client.sync("/")
    assert not queue.seen.client.exists(over)
    assert queue.seen.client.exists(path)
    assert await queue.recall(other) == "long"
    # A client that looked before and comes late must not delete what was stored since.
    before = queue.seen.client.get(bucket)[1].version
    assert await queue.remember(holder, "anew")
    assert not done(await queue.ask(notes.removal(over, 0, bucket, before)))
    assert await queue.recall(holder) == "anew"


async def test_some_clients_that_add_a_note_tidy_up(
    queue: NotedQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_TIDY_ONE_IN", 1)
    holder = await queue.join()
    other = await queue.elsewhere(holder)
    assert await queue.remember(holder, "short", keep=0.001)
    assert await queue.remember(other, "long")
    queue.seen.client.sync("/")
    assert not queue.seen.client.exists(queue.place(holder.name)[1])


async def test_several_holders_and_a_ticket_that_has_to_look_first(queue: NotedQueue) -> None:
    holder = await queue.join()
    readers = [holder._replace(id=new_id(), share=READING) for _ in range(2)]
    for reader in readers:
        assert (await queue.enter(reader)).place is Place.WAITING
        assert not await queue.remember(reader, "too soon")
    await queue.leave(holder)
    for reader in readers:
        assert await queue.remember(reader, reader.id), "it was admitted, though it was not told"
        assert await queue.recall(holder) == reader.id


async def test_an_evicted_ticket_stores_no_note(queue: NotedQueue) -> None:
    holder = await queue.join()
    assert await queue.remember(holder, "one")
    (node,) = queue.seen.tickets(holder.name)
    queue.seen.client.delete(f"/tests/fencelock/{holder.name}/{node}")
    assert not await queue.remember(holder, "two")
    assert await queue.recall(holder) == "one"
