"""One ticket at two instances of an engine: what one has entered, the other can renew, enter and leave."""

from __future__ import annotations

import asyncio
import time

from fencelock.core.ticket import READING, Place, Standing, Ticket
from fencelock.testing.conformance.cells import Cell, act
from fencelock.testing.conformance.test_sharing import LIMIT, Desk
from fencelock.testing.conformance.waiting import soon, within

TTL = 2.0


def two_desks(cell: Cell) -> tuple[Desk, Desk]:
    """Two instances of the same engine. They share nothing but the server."""
    cell.needs("portable")
    return Desk(cell), Desk(cell)


async def renewed(desk: Desk, *tickets: Ticket) -> list[Standing]:
    standings: list[Standing] = await act(desk.cell, desk.engine.renew(tickets, timeout=LIMIT))
    return standings


async def test_a_holder_is_the_same_ticket_at_both(cell: Cell) -> None:
    one, other = two_desks(cell)
    ticket = one.ticket("holder")
    fence = (await one.enter(ticket)).fence
    for desk, if_free in ((other, False), (one, False), (other, True), (one, True)):
        standing = await desk.enter(ticket, if_free=if_free)
        assert (standing.place, standing.fence) == (Place.ADMITTED, fence)
        assert not standing.abandoned
        assert await one.picture() == (["holder"], [])
    for desk in (other, one, other):
        (standing,) = await renewed(desk, ticket)
        assert (standing.place, standing.fence) == (Place.ADMITTED, fence)
    assert (await other.enter(other.ticket("stranger"), if_free=True)).place is Place.REFUSED
    assert await other.leave(ticket)
    assert await one.renew(ticket) == [Place.GONE]
    assert not await one.leave(ticket), "the other instance has taken it out"
    assert not await other.leave(ticket)
    assert await one.picture() == ([], [])


async def test_what_the_other_instance_only_renews_or_leaves(cell: Cell) -> None:
    one, other = two_desks(cell)
    ticket = one.ticket("holder")
    fence = (await one.enter(ticket)).fence
    assert [(at.place, at.fence) for at in await renewed(other, ticket)] == [
        (Place.ADMITTED, fence)
    ]
    third = Desk(cell)
    assert await third.leave(ticket)
    assert await one.renew(ticket) + await other.renew(ticket) == [Place.GONE] * 2
    fresh = await third.enter(third.ticket("next"))
    assert fresh.place is Place.ADMITTED
    assert fresh.fence > fence
    assert not fresh.abandoned, "the ticket was released, though by another instance"


async def test_a_waiter_keeps_its_place(cell: Cell) -> None:
    cell.needs("fifo")
    one, other = two_desks(cell)
    tickets = {label: one.ticket(label) for label in ("holder", "first", "second", "third")}
    fences = [(await one.enter(ticket)).fence for ticket in tickets.values()]
    standing = await other.enter(tickets["second"])
    assert (standing.place, standing.fence) == (Place.WAITING, fences[2])
    standings = await renewed(other, *tickets.values())
    assert [at.place for at in standings] == [Place.ADMITTED] + [Place.WAITING] * 3
    assert [at.fence for at in standings] == fences
    assert await one.picture() == (["holder"], ["first", "second", "third"])
    for label, desk in zip(tickets, (other, one, other, one), strict=True):
        assert (await one.picture())[0] == [label]
        assert await desk.leave(tickets[label])


async def test_a_waiter_is_renewed_at_the_other_instance(cell: Cell) -> None:
    one, other = two_desks(cell)
    holder, waiter = await one.joined("holder"), await one.joined("waiter")
    assert await other.renew(holder, waiter) == [Place.ADMITTED, Place.WAITING]
    await other.leave(waiter)
    assert await other.leave(holder)


async def test_a_waiter_changes_instances_and_gets_the_lock(cell: Cell) -> None:
    """A ticket that waited has asked more than once by then."""
    one, other = two_desks(cell)
    holder, waiter = await one.joined("holder"), await one.joined("waiter")
    assert (await other.enter(waiter)).place is Place.WAITING
    assert (await one.enter(waiter)).place is Place.WAITING
    assert await other.leave(holder)
    admitted = await _admitted(one, waiter)
    assert not admitted.abandoned
    again = await other.enter(waiter)
    assert (again.place, again.fence) == (Place.ADMITTED, admitted.fence)
    assert [at.fence for at in await renewed(one, waiter)] == [admitted.fence]
    assert await one.leave(waiter)
    assert await other.renew(waiter) == [Place.GONE]


async def test_leaving_at_one_wakes_the_waiter_at_the_other(cell: Cell) -> None:
    cell.needs("push")
    one, other = two_desks(cell)
    holder, waiter = await one.joined("holder"), await one.joined("waiter")
    parked = one.park(waiter)
    assert await other.leave(holder)
    await within(parked)
    assert (await _admitted(one, waiter)).place is Place.ADMITTED
    assert not await one.leave(holder), "it was taken out already"
    assert await one.leave(waiter)


async def test_a_waiter_is_woken_where_it_parks(cell: Cell) -> None:
    cell.needs("push")
    cell.needs("fifo")  # without a queue, a wake-up may go to where the ticket asked first
    one, other = two_desks(cell)
    holder, waiter = await one.joined("holder"), await one.joined("waiter")
    assert (await other.enter(waiter)).place is Place.WAITING
    parked = other.park(waiter)
    assert await one.leave(holder)
    await within(parked)
    assert (await _admitted(other, waiter)).place is Place.ADMITTED
    assert await other.leave(waiter)


async def test_tickets_outlive_the_instance_that_entered_them(cell: Cell) -> None:
    one, other = two_desks(cell)
    holder = one.ticket("holder")
    fence = (await one.enter(holder)).fence
    waiter = await one.joined("waiter")
    await cell.run(one.client.close)
    assert [at.place for at in await renewed(other, holder, waiter)] == [
        Place.ADMITTED,
        Place.WAITING,
    ]
    assert (await other.enter(holder)).fence == fence
    assert (await other.enter(waiter)).place is Place.WAITING
    parked = other.park(waiter) if other.client.traits.push else None
    assert await other.leave(holder)
    if parked is not None:
        await within(parked)
    assert not (await _admitted(other, waiter)).abandoned


async def test_a_ticket_is_renewed_by_the_other_instance_beyond_its_ttl(cell: Cell) -> None:
    one, other = two_desks(cell)
    while True:
        began = time.monotonic()
        ticket = await one.joined("holder", ttl=TTL)
        places = await other.renew(ticket._replace(ttl=600.0))
        if time.monotonic() - began < TTL:
            break  # otherwise the machine was so busy that the ticket may have expired
        await one.leave(ticket)
    assert places == [Place.ADMITTED]
    await cell.run(one.client.close)
    assert (await other.enter(other.ticket("early"), if_free=True)).place is Place.REFUSED
    await asyncio.sleep(TTL + 0.2)  # time itself is under test
    assert (await other.enter(other.ticket("late"), if_free=True)).place is Place.REFUSED
    assert await other.renew(ticket) == [Place.ADMITTED]
    assert await other.leave(ticket)


async def test_a_ticket_that_no_instance_renews_expires(cell: Cell) -> None:
    one, other = two_desks(cell)
    ticket = await one.joined("holder", ttl=0.5)
    await other.renew(ticket)
    heir = other.ticket("heir")
    standing = await _admitted(other, heir)
    assert standing.abandoned
    assert await one.renew(ticket) + await other.renew(ticket) == [Place.GONE] * 2
    assert await one.leave(heir)


async def test_a_ticket_that_was_evicted_joins_anew_at_the_other_instance(cell: Cell) -> None:
    one, other = two_desks(cell)
    ticket = one.ticket("holder")
    first = (await one.enter(ticket)).fence
    assert await act(cell, other.engine.evict(cell.name, timeout=LIMIT))
    second = (await other.enter(ticket)).fence
    assert second > first
    assert (await one.enter(ticket)).fence == second
    assert await one.picture() == (["holder"], [])
    assert await one.leave(ticket)
    assert await other.renew(ticket) == [Place.GONE]


async def test_tickets_that_share(cell: Cell) -> None:
    cell.needs("supports_sharing")
    one, other = two_desks(cell)
    writer = one.ticket("writer")
    fence = (await one.enter(writer)).fence
    reader = await one.joined("reader", READING)
    assert (await other.enter(reader)).place is Place.WAITING
    parked = other.park(reader)
    turned = await other.enter(writer._replace(share=READING))
    assert (turned.place, turned.fence) == (Place.ADMITTED, fence)
    await within(parked)
    assert (await _admitted(other, reader)).place is Place.ADMITTED
    assert await one.renew(writer, reader) == [Place.ADMITTED] * 2
    assert await one.picture() == (["writer", "reader"], [])
    assert await one.leave(reader)
    assert await one.leave(writer)
    assert await other.renew(writer, reader) == [Place.GONE] * 2


async def test_the_other_instance_stores_a_note_for_a_holder(cell: Cell) -> None:
    cell.needs("supports_notes")
    one, other = two_desks(cell)
    holder, waiter = await one.joined("holder"), await one.joined("waiter")
    remember, recall = other.engine.remember, one.engine.recall
    assert await act(cell, remember(holder, "by the other", keep=600, timeout=LIMIT))
    assert not await act(cell, remember(waiter, "not yet", keep=600, timeout=LIMIT))
    assert await act(cell, recall(cell.name, timeout=LIMIT)) == "by the other"
    assert await one.leave(holder)
    assert not await act(cell, remember(holder, "too late", keep=600, timeout=LIMIT))


async def _admitted(desk: Desk, ticket: Ticket) -> Standing:
    """Enter until the ticket holds."""

    async def admitted() -> Standing | None:
        standing = await desk.enter(ticket)
        return standing if standing.place is Place.ADMITTED else None

    standing: Standing = await soon(admitted, f"{ticket.owner.label} to hold")
    return standing
