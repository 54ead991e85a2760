"""What is noted down for a name, and taking several names at once."""

from __future__ import annotations

import asyncio

from fencelock.core.ticket import Place
from fencelock.primitives.waiting import new_id
from fencelock.testing.conformance.cells import Cell, act
from fencelock.testing.conformance.test_sharing import LIMIT, Desk
from fencelock.testing.conformance.waiting import soon


async def test_a_holder_notes_something_down(cell: Cell) -> None:
    cell.needs("supports_notes")
    desk = Desk(cell)
    recall, remember = desk.engine.recall, desk.engine.remember
    assert await act(cell, recall(cell.name, timeout=LIMIT)) is None
    holder, waiter = await desk.joined("holder"), await desk.joined("waiter")
    for text in ("", "first", '{"größe": "日本 ' + "x" * 60_000 + '\\n\\"\'"}'):
        assert await act(cell, remember(holder, text, keep=600, timeout=LIMIT))
        assert await act(cell, recall(cell.name, timeout=LIMIT)) == text
    assert not await act(cell, remember(waiter, "mine", keep=600, timeout=LIMIT))
    assert not await act(cell, remember(desk.ticket("stranger"), "mine", keep=600, timeout=LIMIT))
    await desk.leave(holder)
    await desk.leave(waiter)
    assert not await act(cell, remember(holder, "too late", keep=600, timeout=LIMIT))
    assert await act(cell, recall(cell.name, timeout=LIMIT)) == text, "it outlives who wrote it"
    assert await act(cell, recall(cell.name + "x", timeout=LIMIT)) is None
    assert cell.name not in await act(cell, desk.engine.names("*", timeout=LIMIT))


async def test_what_was_noted_down_has_its_time(cell: Cell) -> None:
    cell.needs("supports_notes")
    desk = Desk(cell)
    holder = await desk.joined("holder")
    assert await act(cell, desk.engine.remember(holder, "short", keep=0.5, timeout=LIMIT))
    await asyncio.sleep(0.5)  # time itself is under test

    async def forgotten() -> bool:
        return await act(cell, desk.engine.recall(cell.name, timeout=LIMIT)) is None

    await soon(forgotten, "its end")
    assert await act(cell, desk.engine.remember(holder, "again", keep=600, timeout=LIMIT))
    assert await act(cell, desk.engine.recall(cell.name, timeout=LIMIT)) == "again"


async def test_several_names_at_once(cell: Cell) -> None:
    desk = Desk(cell)
    wanted = [desk.ticket("several")._replace(name=f"{cell.name}:{number}") for number in range(4)]
    taken = wanted[2]._replace(id=new_id())
    assert (await desk.enter(taken)).place is Place.ADMITTED
    standings = await act(cell, desk.engine.enter_free(wanted, timeout=LIMIT))
    assert [one.place for one in standings[:3]] == [Place.ADMITTED, Place.ADMITTED, Place.REFUSED]
    assert await desk.leave(taken)
    again = await act(cell, desk.engine.enter_free(wanted, timeout=LIMIT))
    assert [one.place for one in again] == [Place.ADMITTED] * 4
    assert [one.fence for one in again[:2]] == [one.fence for one in standings[:2]]
    for ticket in wanted:
        assert await desk.leave(ticket)
