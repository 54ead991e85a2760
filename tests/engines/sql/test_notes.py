"""Notes in either database: only a holder writes them, and they expire. And several names in one request."""

import asyncio

import pytest

from fencelock.core.ticket import READING, Place, Ticket
from fencelock.engines.postgresql.wire import Wire
from fencelock.primitives.waiting import new_id
from tests.conformance.cells import Cell, OpenCell, act
from tests.conformance.test_sharing import LIMIT, Desk
from tests.engines.sql.conftest import Database
from tests.engines.sql.tables import Tables

LONG_AGO = 1_000_000_000_000_000
"""A moment in 2001, in µs since 1970."""


@pytest.fixture
def cell(database: Database, open_cell: OpenCell) -> Cell:
    return open_cell(database.server.url)


async def note(desk: Desk, ticket: Ticket, text: str) -> bool:
    remembered = desk.engine.remember(ticket, text, keep=600, timeout=LIMIT)
    return bool(await act(desk.cell, remembered))


async def noted(desk: Desk) -> str | None:
    text: str | None = await act(desk.cell, desk.engine.recall(desk.cell.name, timeout=LIMIT))
    return text


async def test_an_expired_holder_stores_no_note(cell: Cell, tables: Tables) -> None:
    desk = Desk(cell)
    holder = await desk.joined("holder")
    a, b = [await desk.joined(label, READING) for label in "ab"]
    assert await note(desk, holder, "alone")
    tables.set("names", "expires = 1")
    assert not await note(desk, holder, "too late")
    assert await desk.picture() == (["a", "b"], []), "the expiry was noticed then"
    assert await note(desk, b, "shared")
    tables.set("names", "expires = 1")
    tables.set("tickets", "expires = 1", f"id = '{a.id}'")
    assert not await note(desk, a, "too late")
    assert await noted(desk) == "shared"
    assert await desk.picture() == (["b"], [])


async def test_notes_outlive_their_names_until_they_expire(cell: Cell, tables: Tables) -> None:
    desk = Desk(cell)
    holder = await desk.joined("holder")
    assert await note(desk, holder, "kept")
    assert await desk.leave(holder)
    tables.set("names", "newest = 1")
    tables.run(f"v2_sweep({LONG_AGO})")
    assert await noted(desk) == "kept"
    tables.set("notes", "expires = 1")
    assert await noted(desk) is None
    assert tables.noted() == [cell.name]
    other = holder._replace(name=f"{cell.name}:other")
    await desk.enter(other)
    assert await note(desk, other, "another")
    assert tables.noted() == [other.name], "a write deletes expired notes"


async def test_a_note_does_not_wait_for_other_notes(
    cell: Cell, tables: Tables, database: Database
) -> None:
    desk = Desk(cell)
    holder = await desk.joined("holder")
    other = holder._replace(name=f"{cell.name}:other")
    await desk.enter(other)
    assert await note(desk, holder, "old")
    tables.set("notes", "expires = 1")
    with database.server.connect() as hog, hog.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(
            f"SELECT 1 FROM {tables.prefix}notes WHERE name = %s FOR UPDATE", (cell.name,)
        )
        assert await note(desk, other, "new")
        cursor.execute("ROLLBACK")
    assert tables.noted() == [holder.name, other.name]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_several_names_in_one_request(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any order, shared or not."""
    desk = Desk(cell)
    wanted = [
        desk.ticket("several", share)._replace(id=new_id(), name=f'{cell.name}:"{number}\\')
        for number, share in enumerate([desk.ticket("").share, READING, READING])
    ][::-1]
    await desk.joined("connected")
    requests: list[object] = []
    call = Wire.call

    async def counted(wire: Wire, request: tuple[object, ...], timeout: float) -> list[str]:
        requests.append(request)
        return await call(wire, request, timeout)  # type: ignore[arg-type]

    monkeypatch.setattr(Wire, "call", counted)
    standings = await act(cell, desk.engine.enter_free(wanted, timeout=LIMIT))
    assert [one.place for one in standings] == [Place.ADMITTED] * 3
    assert len(requests) == 1
    beside = [one._replace(id=new_id(), share=READING) for one in wanted]
    refused = await act(cell, desk.engine.enter_free(beside, timeout=LIMIT))
    assert [one.place for one in refused] == [Place.ADMITTED] * 2 + [Place.REFUSED]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
async def test_several_clients_want_the_same_names_at_once(cell: Cell) -> None:
    """In any order of the names: one client gets all of them, and the others get none."""
    desks = [Desk(cell) for _ in range(4)]

    async def take(number: int, turn: int) -> set[Place]:
        desk = desks[number]
        names = [f"{cell.name}:{turn}:{letter}" for letter in "abcdef"][:: number % 2 * 2 - 1]
        wanted = [desk.ticket("")._replace(name=name) for name in names]
        standings = await act(cell, desk.engine.enter_free(wanted, timeout=LIMIT))
        return {one.place for one in standings}

    for turn in range(5):
        places = await asyncio.gather(*(take(number, turn) for number in range(len(desks))))
        assert places.count({Place.ADMITTED}) == 1
        assert places.count({Place.REFUSED}) == len(desks) - 1
