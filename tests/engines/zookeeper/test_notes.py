"""What notes cost, and what becomes of their nodes."""

from collections.abc import Callable
from typing import Any

import pytest

from fencelock.core.ticket import READING, Place, Ticket
from fencelock.engines.zookeeper import notes
from fencelock.engines.zookeeper.replies import done
from fencelock.engines.zookeeper.transport import Transport
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell, act
from tests.engines.zookeeper.observing import Witness
from tests.engines.zookeeper.test_sharing import LIMIT, Desk
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon


class Writer(Desk):
    """One who notes something down."""

    @property
    def engine(self) -> Any:
        return self.client._engine

    async def remember(self, ticket: Ticket, text: str, keep: float = 600) -> bool:
        noted = self.engine.remember(ticket, text, keep=keep, timeout=LIMIT)
        return bool(await act(self.cell, noted))

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
        """The shelf, and the node."""
        shelf, path = self.engine._notes._place(name)
        return shelf, path

    async def elsewhere(self, ticket: Ticket) -> Ticket:
        """A holder of another name that belongs on the same shelf."""
        shelf = self.place(ticket.name)[0]
        names = (f"{ticket.name}:{number}" for number in range(10_000))
        name = next(name for name in names if self.place(name)[0] == shelf)
        other = ticket._replace(name=name, id=new_id())
        await self.enter(other)
        return other


@pytest.fixture
def desk(
    cell: Cell,
    zookeeper: Ensemble,
    witness: Callable[[Ensemble], Witness],
    monkeypatch: pytest.MonkeyPatch,
) -> Writer:
    monkeypatch.setattr(notes, "_TIDY_ONE_IN", 1_000_000_000)  # nobody tidies up by chance
    return Writer(cell, witness(zookeeper))


async def test_what_it_costs(desk: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = await desk.join()
    assert await desk.remember(holder, "makes the shelf, if need be")
    assert await desk.recall(holder), "now the servers' time is known"
    other = await desk.elsewhere(holder)
    trips: list[list[str]] = []
    exchange = Transport.exchange

    def noting(transport: Transport, requests: list[Any], until: float) -> Any:
        trips.append([type(request).__name__ for request in requests])
        return exchange(transport, requests, until)

    monkeypatch.setattr(Transport, "exchange", noting)
    for text in ("added", "replaced"):
        assert await desk.remember(other, text)
        assert await desk.recall(other) == text
    assert trips == [["Transaction", "Transaction"], ["Sync", "GetData"]] * 2


async def test_what_is_over_is_taken_out_by_others(desk: Writer) -> None:
    holder = await desk.join()
    other = await desk.elsewhere(holder)
    assert await desk.remember(holder, "short", keep=0.001)
    assert await desk.remember(other, "long")
    (shelf, over), (_, path) = desk.place(holder.name), desk.place(other.name)

    async def forgotten() -> bool:
        return await desk.recall(holder) is None

    await soon(forgotten, "its end")
    await desk.tidy(other.name)
    desk.seen.client.sync("/")
    assert not desk.seen.client.exists(over)
    assert desk.seen.client.exists(path)
    assert await desk.recall(other) == "long"
    # One who looked before and comes late must not take out what was noted down since.
    before = desk.seen.client.get(shelf)[1].version
    assert await desk.remember(holder, "anew")
    assert not done(await desk.ask(notes.removal(over, 0, shelf, before)))
    assert await desk.recall(holder) == "anew"


async def test_some_of_those_who_add_something_tidy_up(
    desk: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_TIDY_ONE_IN", 1)
    holder = await desk.join()
    other = await desk.elsewhere(holder)
    assert await desk.remember(holder, "short", keep=0.001)
    assert await desk.remember(other, "long")
    desk.seen.client.sync("/")
    assert not desk.seen.client.exists(desk.place(holder.name)[1])


async def test_one_of_several_holders_and_one_that_has_to_look_first(desk: Writer) -> None:
    holder = await desk.join()
    readers = [holder._replace(id=new_id(), share=READING) for _ in range(2)]
    for reader in readers:
        assert (await desk.enter(reader)).place is Place.WAITING
        assert not await desk.remember(reader, "too soon")
    await desk.leave(holder)
    for reader in readers:
        assert await desk.remember(reader, reader.id), "it was admitted, though nobody has told it"
        assert await desk.recall(holder) == reader.id


async def test_who_was_evicted_notes_nothing_down(desk: Writer) -> None:
    holder = await desk.join()
    assert await desk.remember(holder, "one")
    (node,) = desk.seen.tickets(holder.name)
    desk.seen.client.delete(f"/tests/fencelock/{holder.name}/{node}")
    assert not await desk.remember(holder, "two")
    assert await desk.recall(holder) == "one"
