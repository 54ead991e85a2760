"""Shared names in either database: what they cost, and what does no harm."""

import pytest

from fencelock.core.ticket import READING, Departure, Place, Share
from tests.conformance.cells import Cell, OpenCell, act
from tests.conformance.test_sharing import LIMIT, Desk
from tests.engines.sql.conftest import Database
from tests.engines.sql.tables import Tables
from tests.waiting import within


@pytest.fixture
def cell(database: Database, open_cell: OpenCell) -> Cell:
    return open_cell(database.server.url)


async def test_waiters_cost_nothing(cell: Cell, tables: Tables) -> None:
    """However many wait: a reader looks again, another one is refused, a third one leaves."""
    desk = Desk(cell)
    a, b, c, d = [await desk.joined(label, READING) for label in "abcd"]
    await desk.joined("writer")
    joining = "v2_join('{}', '{}', 60000000, '', 'host 1 ', true, 1, 'read', 0, 1)"

    def costs(leaver: str) -> list[int]:
        return [
            tables.reads(joining.format(cell.name, a.id)),
            tables.reads(joining.format(cell.name, "stranger")),
            tables.reads(f"v2_take_out('{cell.name}', '{leaver}', 0)"),
        ]

    few = costs(b.id)
    tables.crowd(cell.name, 300)
    assert costs(c.id) == few
    assert sum(few) < 100
    assert (await desk.renew(a, d)) == [Place.ADMITTED] * 2


async def test_permits_cost_nothing(cell: Cell, tables: Tables) -> None:
    """However many permits of a rate are out: one more is taken, and one of them has expired."""
    asking = "v2_join('{}', '{}', 60000000, '', 'host 1 ', true, 1, 'rate 600000000', 1, 500)"
    desk, costs = Desk(cell), []
    for out in (4, 150):
        name = f"{cell.name}:{out}"
        tickets = [
            desk.ticket("one", Share.rate(500, 600.0))._replace(name=name) for _ in range(out)
        ]
        for one in tickets:
            await desk.enter(one)
        free = tables.reads(asking.format(name, "free"))
        tables.set("tickets", "expires = 1", f"id = '{tickets[0].id}'")
        tables.set("names", "expires = 1", f"name = '{name}'")
        costs.append((free, tables.reads(asking.format(name, "late"))))
    few, many = costs
    assert max(many) <= max(few) + 5, costs


async def test_a_lost_wake_up_of_a_reader(cell: Cell, tables: Tables) -> None:
    desk = Desk(cell)
    writer = await desk.joined("writer")
    reader = await desk.joined("reader", READING)
    tables.set("tickets", "channel = 'nowhere'")
    assert await desk.leave(writer)
    assert await desk.renew(reader) == [Place.ADMITTED]


async def test_expired_sharers_are_found(cell: Cell, tables: Tables) -> None:
    """The name's row has a moment before which no holder expires. Renewals don't update it."""
    desk = Desk(cell)
    a, b = [await desk.joined(label, Share.of(2)) for label in "ab"]
    tables.set("names", "expires = 1")
    c = await desk.joined("c", Share.of(2))
    assert 50 < (await desk.enter(c)).recheck <= 60
    assert await desk.picture() == (["a", "b"], ["c"]), "nobody was lost"
    parked = desk.park(c)
    tables.set("names", "expires = 1")
    tables.set("tickets", "expires = 1", f"id = '{b.id}'")
    assert await desk.renew(a, b) == [Place.ADMITTED, Place.GONE]
    news = await within(parked)
    assert news is None or news.place is Place.ADMITTED
    assert await desk.picture() == (["a", "c"], []), "and it is counted right:"
    assert await desk.leave(a, Departure.LOST)
    assert await desk.leave(c)
    assert await desk.picture() == ([], [])


async def test_a_name_that_is_shared_is_not_forgotten(cell: Cell, tables: Tables) -> None:
    desk = Desk(cell)
    reader = await desk.joined("reader", READING)
    tables.set("names", "newest = 1, expires = 1")
    tables.run("v2_sweep(1000000000000000)")  # in 2001
    assert await desk.renew(reader) == [Place.ADMITTED]


async def test_owners_may_be_long(cell: Cell) -> None:
    desk = Desk(cell)
    owner = desk.ticket("é" * 500).owner._replace(data="é" * 1200)
    for share in (READING, Share.of(2), Share()):
        ticket = desk.ticket("", share)._replace(owner=owner)
        assert await desk.enter(ticket)
    seen = await act(cell, desk.engine.inspect(cell.name, limit=9, timeout=LIMIT))
    assert [one.owner for one in seen.contenders] == [owner] * 3
