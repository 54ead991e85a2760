"""Tickets of one group hold together, all others alone; what a newcomer may ask of its fence."""

from __future__ import annotations

import asyncio
from typing import Any

from fencelock.core.ticket import ALONE, READING, Departure, Owner, Place, Share, Standing, Ticket
from fencelock.primitives.waiting import new_id
from fencelock.testing.conformance.cells import Cell, act
from fencelock.testing.conformance.waiting import soon, within

LIMIT = 5.0


class Desk:
    """One name at one engine, asked directly."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.client = cell.client()
        self.engine = self.client._context.engine

    def ticket(self, label: str, share: Share = ALONE, ttl: float = 60.0) -> Ticket:
        return Ticket(self.cell.name, new_id(), ttl, Owner("host", 1, label), share)

    async def enter(self, ticket: Ticket, *, if_free: bool = False) -> Standing:
        standing: Standing = await act(
            self.cell, self.engine.enter(ticket, if_free=if_free, timeout=LIMIT)
        )
        return standing

    async def joined(self, label: str, share: Share = ALONE, ttl: float = 60.0) -> Ticket:
        """A ticket that has joined the queue."""
        ticket = self.ticket(label, share, ttl)
        await self.enter(ticket)
        return ticket

    async def leave(self, ticket: Ticket, departure: Departure = Departure.RELEASED) -> bool:
        left = await act(self.cell, self.engine.leave(ticket, timeout=LIMIT, departure=departure))
        return bool(left)

    async def renew(self, *tickets: Ticket) -> list[Place]:
        answers = await act(self.cell, self.engine.renew(tickets, timeout=LIMIT))
        return [standing.place for standing in answers]

    def park(self, ticket: Ticket) -> asyncio.Task[Any]:
        """Sleep until something is heard, which is long before the time is up."""
        until = self.client._context.io.now() + 600
        return asyncio.create_task(act(self.cell, self.engine.park(ticket, until)))

    async def picture(self) -> tuple[list[str], list[str]]:
        """The labels of those who hold and of those who wait."""
        seen = await act(self.cell, self.engine.inspect(self.cell.name, limit=99, timeout=LIMIT))
        assert seen.waiting == len(seen.waiters)
        return (
            [one.owner.label for one in seen.holders],
            [one.owner.label for one in seen.waiters],
        )


async def test_readers_share_and_writers_hold_alone(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    a = await desk.joined("a", READING)
    b = await desk.joined("b", READING)
    writer = await desk.joined("writer")
    c = await desk.joined("c", READING)
    d = await desk.joined("d", READING)
    assert await desk.picture() == (["a", "b"], ["writer", "c", "d"])
    refused = await desk.enter(desk.ticket("e", READING), if_free=True)
    assert refused.place is Place.REFUSED, "it would overtake the writer"
    assert await desk.leave(b)
    assert await desk.picture() == (["a"], ["writer", "c", "d"])
    assert await desk.leave(a)
    assert await desk.picture() == (["writer"], ["c", "d"])
    assert await desk.leave(writer)
    assert await desk.picture() == (["c", "d"], [])
    assert await desk.renew(c, d, a) == [Place.ADMITTED, Place.ADMITTED, Place.GONE]


async def test_a_semaphore_has_so_many_permits(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    a = await desk.joined("a", Share.of(3))
    b = await desk.joined("b", Share.of(3, 2))
    c = await desk.joined("c", Share.of(3, 2))
    await desk.joined("d", Share.of(3))
    assert await desk.picture() == (["a", "b"], ["c", "d"])
    assert await desk.leave(a)
    assert await desk.picture() == (["b"], ["c", "d"]), "one permit is free, and c wants two"
    assert await desk.leave(b)
    assert await desk.picture() == (["c", "d"], [])
    assert await desk.leave(c)
    assert (await desk.enter(desk.ticket("e", Share.of(3, 3)), if_free=True)).place is Place.REFUSED
    assert (
        await desk.enter(desk.ticket("f", Share.of(3, 2)), if_free=True)
    ).place is Place.ADMITTED


async def test_groups_do_not_mix(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    three = await desk.joined("three", Share.of(3))
    nine = await desk.joined("nine", Share.of(9))
    reader = await desk.joined("reader", READING)
    await desk.joined("mutex")
    assert await desk.picture() == (["three"], ["nine", "reader", "mutex"])
    await desk.leave(three)
    assert await desk.picture() == (["nine"], ["reader", "mutex"])
    await desk.leave(nine)
    assert await desk.picture() == (["reader"], ["mutex"])
    await desk.leave(reader)
    assert await desk.picture() == (["mutex"], [])


async def test_one_that_gives_up_waiting_lets_those_behind_it_in(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    await desk.joined("a", READING)
    writer = await desk.joined("writer")
    b = await desk.joined("b", READING)
    parked = desk.park(b)
    assert await desk.leave(writer, Departure.WITHDRAWN)
    news = await within(parked)
    assert news is None or news.place is Place.ADMITTED
    assert await desk.picture() == (["a", "b"], [])


async def test_everyone_whom_a_release_admits_is_told(cell: Cell) -> None:
    cell.needs("supports_sharing")
    cell.needs("push")
    desk = Desk(cell)
    writer = await desk.joined("writer")
    readers = [await desk.joined(f"{number}", READING) for number in range(3)]
    parked = [desk.park(reader) for reader in readers]
    assert await desk.leave(writer)
    for news in await asyncio.wait_for(asyncio.gather(*parked), 30):
        assert news is None or news.place is Place.ADMITTED
    assert await desk.renew(*readers) == [Place.ADMITTED] * 3


async def test_a_permit_of_the_dead_is_free_after_its_ttl(cell: Cell) -> None:
    cell.needs("supports_sharing")
    cell.needs("leases_expire")
    desk = Desk(cell)
    await desk.joined("a", Share.of(2))
    mortal = await desk.joined("mortal", Share.of(2), ttl=2.0)
    heir = desk.ticket("heir", Share.of(2))
    waiting = await desk.enter(heir)
    assert waiting.place is Place.WAITING
    assert 0 < waiting.recheck <= 2.0, "any of those who hold may be the one that expires"
    await asyncio.sleep(waiting.recheck + 0.01)  # time itself is under test

    async def admitted() -> bool:
        return (await desk.enter(heir)).place is Place.ADMITTED

    await soon(admitted, "the heir's admission")
    assert await desk.picture() == (["a", "heir"], [])
    assert await desk.renew(mortal) == [Place.GONE]


async def test_a_dead_waiter_does_not_hold_up_those_behind_it(cell: Cell) -> None:
    cell.needs("supports_sharing")
    cell.needs("leases_expire")
    desk = Desk(cell)
    await desk.joined("a", READING)
    await desk.joined("dead writer", ttl=2.0)
    reader = desk.ticket("b", READING)
    waiting = await desk.enter(reader)
    assert waiting.place is Place.WAITING
    await asyncio.sleep(waiting.recheck + 0.01)  # time itself is under test

    async def admitted() -> bool:
        return (await desk.enter(reader)).place is Place.ADMITTED

    await soon(admitted, "the reader's admission")
    assert await desk.picture() == (["a", "b"], [])


async def test_one_that_holds_alone_may_share_from_now_on_but_never_goes_back(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    a = await desk.joined("a")
    b = await desk.joined("b", READING)
    parked = desk.park(b)
    held = await desk.enter(a)
    turned = await desk.enter(a._replace(share=READING))
    assert turned == held, "it keeps its fence"
    news = await within(parked)
    assert news is None or news.place is Place.ADMITTED
    assert await desk.picture() == (["a", "b"], [])
    assert (await desk.enter(a)).place is Place.ADMITTED, "a late copy of the first request"
    assert (await desk.enter(desk.ticket("c", READING))).place is Place.ADMITTED
    writer = await desk.joined("writer")
    await desk.enter(writer._replace(share=READING))
    assert await desk.picture() == (["a", "b", "c"], ["writer"])


async def test_who_shares_neither_abandons_nor_excuses(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    reader = await desk.joined("reader", READING)
    await desk.leave(reader, Departure.LOST)
    writer = desk.ticket("writer")
    assert not (await desk.enter(writer)).abandoned
    await desk.leave(writer, Departure.LOST)
    reader = desk.ticket("reader", READING)
    assert (await desk.enter(reader)).abandoned
    await desk.leave(reader)
    await desk.joined("reader", READING)
    assert await act(cell, desk.engine.evict(cell.name, timeout=LIMIT))
    assert (await desk.enter(desk.ticket("writer"))).abandoned


async def test_all_who_hold_are_evicted(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    readers = [await desk.joined(f"{number}", READING) for number in range(3)]
    await desk.joined("writer")
    assert await act(cell, desk.engine.evict(cell.name, timeout=LIMIT))
    assert await desk.picture() == (["writer"], [])
    assert await desk.renew(*readers) == [Place.GONE] * 3


async def test_listings_show_who_shares(cell: Cell) -> None:
    cell.needs("supports_sharing")
    desk = Desk(cell)
    await desk.joined("a", Share.of(5, 2))
    await desk.joined("b", Share.of(5, 4))
    seen = await act(cell, desk.engine.inspect(cell.name, limit=9, timeout=LIMIT))
    assert [one.share for one in seen.holders] == [Share.of(5, 2)]
    assert [one.share for one in seen.waiters] == [Share.of(5, 4)]
    assert await act(cell, desk.engine.names(cell.name, timeout=LIMIT)) == [cell.name]


async def test_a_fence_is_lifted_above_what_somebody_has_seen(cell: Cell) -> None:
    cell.needs("accepts_floor")
    desk = Desk(cell)
    first = desk.ticket("first")
    before = await desk.enter(first)
    await desk.leave(first)
    floor = before.fence + 10**12
    lifted = desk.ticket("lifted")._replace(floor=floor)
    after = await desk.enter(lifted)
    assert after.fence > floor
    assert await desk.enter(lifted._replace(floor=2 * floor)) == after, "only a newcomer is lifted"
    await desk.leave(lifted)
    assert (await desk.enter(desk.ticket("next"))).fence > after.fence


async def test_a_repeat_replaces_the_owner(cell: Cell) -> None:
    desk = Desk(cell)
    holder = await desk.joined("before")
    owner = holder.owner._replace(label="after", data="10.0.0.7:8080 " + "é" * 400)
    assert (await desk.enter(holder._replace(owner=owner))).place is Place.ADMITTED
    seen = await act(cell, desk.engine.inspect(cell.name, limit=0, timeout=LIMIT))
    assert [one.owner for one in seen.holders] == [owner]


async def test_one_who_is_parked_can_be_roused(cell: Cell) -> None:
    desk = Desk(cell)
    await desk.joined("holder")
    waiter = await desk.joined("waiter")
    parked = desk.park(waiter)

    async def back() -> bool:
        desk.engine.interrupt(waiter)  # it may not be parked yet
        await asyncio.sleep(0.02)
        return parked.done()

    await soon(back, "it to come back")
    parked.exception()  # an EngineError will do as well
    assert (await desk.enter(waiter)).place is Place.WAITING
