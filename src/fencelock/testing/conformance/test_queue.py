"""One holder at a time, in order of arrival, with fences that grow; and every request idempotent."""

import asyncio
from functools import partial
from typing import Any

from fencelock.core.ticket import Departure, Owner, Place, Ticket
from fencelock.io.blocking import run
from fencelock.primitives.waiting import new_id
from fencelock.testing.conformance.cells import Cell, queued


def ticket(cell: Cell, ttl: float = 30.0) -> Ticket:
    return Ticket(cell.name, new_id(), ttl, Owner("host", 1, "somebody"))


async def test_one_holder_at_a_time(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    assert await cell.run(lambda: other.lock(cell.name).try_acquire()) is None
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    await cell.run(lease.release)
    again = await cell.run(lambda: other.lock(cell.name).try_acquire())
    assert again is not None
    assert again.fence > lease.fence


async def test_names_do_not_disturb_one_another(cell: Cell) -> None:
    client = cell.client()
    odd = [
        "{}",
        "}",
        "{",
        "a}b",
        "a{b",
        "%7D",
        "%",
        "*",
        "a*",
        "a/b",
        "../a",
        "a b",
        " ",
        "é",
        "日本",
        "q",
    ]
    names = [f"{cell.name}{name}" for name in odd] + [f"{name}{cell.name}" for name in odd]
    leases = [await cell.run(client.lock(name).try_acquire) for name in names]
    assert all(leases)
    assert [lease.name for lease in leases] == names
    assert set(await cell.run(client.names)) >= set(names)
    for lease in leases:
        await cell.run(lease.release)
    assert not set(await cell.run(client.names)) & set(names)


async def test_composed_and_decomposed_letters_are_the_same_name(cell: Cell) -> None:
    client = cell.client()
    assert await cell.run(lambda: client.lock(cell.name + "e\u0301").try_acquire())
    assert await cell.run(lambda: client.lock(cell.name + "\u00e9").try_acquire()) is None


async def test_names_are_found_by_pattern(cell: Cell) -> None:
    client = cell.client()
    for suffix in (":a", ":b", "x:[1]"):
        await cell.run(client.lock(cell.name + suffix).acquire)
    assert await cell.run(lambda: client.names(cell.name + ":*")) == [
        cell.name + ":a",
        cell.name + ":b",
    ]
    assert await cell.run(lambda: client.names(cell.name + ":?")) == [
        cell.name + ":a",
        cell.name + ":b",
    ]
    assert await cell.run(lambda: client.names(cell.name + "x*")) == [cell.name + "x:[1]"]
    assert await cell.run(lambda: client.names(cell.name.upper() + ":*")) == []


async def test_first_come_first_served(cell: Cell) -> None:
    cell.needs("fifo")
    client = cell.client()
    first = await cell.run(lambda: client.lock(cell.name).acquire())
    order: list[int] = []
    fences: list[int] = [first.fence]

    async def contend(number: int) -> None:
        actor = cell.actor()
        lease = await actor.do(lambda: client.lock(cell.name).acquire())
        order.append(number)
        fences.append(lease.fence)
        await actor.do(lease.release)

    contenders: list[asyncio.Task[None]] = []
    for number in range(12):
        contenders.append(asyncio.create_task(contend(number)))
        await queued(cell, client, number + 1)
    await cell.run(first.release)
    await asyncio.gather(*contenders)
    assert order == list(range(12))
    assert fences == sorted(set(fences)), "fences must grow strictly in the order of grants"


async def test_a_newcomer_does_not_overtake_a_waiter(cell: Cell) -> None:
    cell.needs("fifo")
    client = cell.client()
    first = await cell.run(lambda: client.lock(cell.name).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name).acquire())
    await queued(cell, client, 1)
    await cell.run(first.release)
    assert await cell.run(lambda: client.lock(cell.name).try_acquire()) is None
    assert (await waiter).fence > first.fence


async def test_entering_twice_with_one_id_is_entering_once(cell: Cell) -> None:
    cell.needs("fenced_while_waiting")
    engine = _engine(cell)
    holder, waiter = ticket(cell), ticket(cell)
    held = await cell.run(lambda: enter(cell, engine, holder))
    waiting = await cell.run(lambda: enter(cell, engine, waiter))
    assert (held.place, waiting.place) == (Place.ADMITTED, Place.WAITING)
    assert waiting.fence > held.fence
    again = await cell.run(lambda: enter(cell, engine, holder))
    still = await cell.run(lambda: enter(cell, engine, waiter))
    assert again == held
    assert (still.place, still.fence) == (Place.WAITING, waiting.fence)
    assert 0 < still.recheck <= holder.ttl
    seen = await cell.run(lambda: as_face(cell, engine.inspect(cell.name, limit=9, timeout=30)))
    assert (len(seen.holders), seen.waiting, len(seen.waiters)) == (1, 1, 1)


async def test_leaving_twice_is_leaving_once(cell: Cell) -> None:
    cell.needs("fenced_while_waiting")
    engine = _engine(cell)
    holder, waiter, last = ticket(cell), ticket(cell), ticket(cell)
    for one in (holder, waiter, last):
        await cell.run(partial(enter, cell, engine, one))
    assert await cell.run(lambda: as_face(cell, engine.leave(waiter, timeout=30))) is True
    assert await cell.run(lambda: as_face(cell, engine.leave(waiter, timeout=30))) is False
    assert await cell.run(lambda: as_face(cell, engine.leave(holder, timeout=30))) is True
    assert await cell.run(lambda: as_face(cell, engine.leave(holder, timeout=30))) is False
    assert (await cell.run(lambda: enter(cell, engine, last))).place is Place.ADMITTED


async def test_a_renewal_never_brings_a_ticket_back(cell: Cell) -> None:
    engine = _engine(cell)
    first, unknown = ticket(cell), ticket(cell)
    await cell.run(lambda: enter(cell, engine, first))
    await cell.run(lambda: as_face(cell, engine.leave(first, timeout=30)))
    standings = await cell.run(lambda: as_face(cell, engine.renew([first, unknown], timeout=30)))
    assert [standing.place for standing in standings] == [Place.GONE, Place.GONE]
    seen = await cell.run(lambda: as_face(cell, engine.inspect(cell.name, limit=9, timeout=30)))
    assert not seen.holders
    assert not seen.waiting


async def test_joining_only_if_free(cell: Cell) -> None:
    engine = _engine(cell)
    first, second = ticket(cell), ticket(cell)
    assert (
        await cell.run(lambda: enter(cell, engine, first, if_free=True))
    ).place is Place.ADMITTED
    assert (
        await cell.run(lambda: enter(cell, engine, second, if_free=True))
    ).place is Place.REFUSED
    assert (
        await cell.run(lambda: enter(cell, engine, first, if_free=True))
    ).place is Place.ADMITTED
    seen = await cell.run(lambda: as_face(cell, engine.inspect(cell.name, limit=9, timeout=30)))
    assert seen.waiting == 0


async def test_an_expired_ticket_is_gone_and_comes_back_as_a_new_one(cell: Cell) -> None:
    cell.needs("leases_expire")
    cell.needs("fenced_while_waiting")
    engine = _engine(cell)
    mortal, heir = ticket(cell, ttl=2.0), ticket(cell)
    first = await cell.run(lambda: enter(cell, engine, mortal))
    waiting = await cell.run(lambda: enter(cell, engine, heir))
    assert waiting.recheck <= 2.0
    await asyncio.sleep(waiting.recheck + 0.01)  # time itself is under test
    heard = await cell.run(lambda: enter(cell, engine, heir))
    assert (heard.place, heard.fence, heard.abandoned) == (Place.ADMITTED, waiting.fence, True)
    back = await cell.run(lambda: enter(cell, engine, mortal))
    assert back.place is Place.WAITING
    assert back.fence > heard.fence > first.fence


async def test_eviction_passes_the_lock_on(cell: Cell) -> None:
    cell.needs("fenced_while_waiting")
    engine = _engine(cell)
    holder, heir = ticket(cell), ticket(cell)
    assert await cell.run(lambda: as_face(cell, engine.evict(cell.name, timeout=30))) is False
    for one in (holder, heir):
        await cell.run(partial(enter, cell, engine, one))
    assert await cell.run(lambda: as_face(cell, engine.evict(cell.name, timeout=30))) is True
    standings = await cell.run(lambda: as_face(cell, engine.renew([holder, heir], timeout=30)))
    assert [standing.place for standing in standings] == [Place.GONE, Place.ADMITTED]
    assert standings[1].abandoned


async def test_how_a_holder_departs_is_known_to_the_next(cell: Cell) -> None:
    cell.needs("fenced_while_waiting")
    engine = _engine(cell)

    async def depart(how: Departure) -> Any:
        leaving, heir = ticket(cell), ticket(cell)
        await cell.run(partial(enter, cell, engine, leaving))
        await cell.run(partial(enter, cell, engine, heir))
        assert await cell.run(
            lambda: as_face(cell, engine.leave(leaving, timeout=2, departure=how))
        )
        seen = await cell.run(partial(enter, cell, engine, heir))
        assert seen.place is Place.ADMITTED
        await cell.run(
            lambda: as_face(cell, engine.leave(heir, timeout=2, departure=Departure.WITHDRAWN))
        )
        return seen.abandoned

    assert await depart(Departure.RELEASED) is False
    assert await depart(Departure.WITHDRAWN) is False
    assert await depart(Departure.LOST) is True
    assert await depart(Departure.WITHDRAWN) is True, "nobody has worked since"
    assert await depart(Departure.RELEASED) is False


async def test_inspection_shows_everyone_and_no_secret(cell: Cell) -> None:
    cell.needs("leases_expire")
    client = cell.client(label="night shift")
    lease = await cell.run(lambda: client.lock(cell.name, ttl=20).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, label="who waits").acquire())
    await queued(cell, client, 1)
    seen = await cell.run(lambda: client.inspect(cell.name))
    (holder,) = seen.holders
    assert (holder.owner.label, holder.fence) == ("night shift", lease.fence)
    assert 0 <= holder.held_for < 20
    assert 0 < holder.expires_in <= 20
    assert [one.owner.label for one in seen.waiters] == ["who waits"]
    if client.traits.fenced_while_waiting:
        assert seen.waiters[0].fence > lease.fence
        assert seen.fence == seen.waiters[0].fence
    assert lease.id not in repr(seen) + repr(lease) + str(seen)
    limited = await cell.run(lambda: client.inspect(cell.name, limit=0))
    assert (limited.waiters, limited.waiting) == ((), 1)
    await cell.run(lease.release)
    await waiter


def _engine(cell: Cell) -> Any:
    return cell.client()._context.engine


def enter(cell: Cell, engine: Any, one: Ticket, *, if_free: bool = False) -> Any:
    async def enter_and_unpark() -> Any:
        standing = await engine.enter(one, if_free=if_free, timeout=30)
        engine.unpark(one)  # nobody waits with it
        return standing

    return as_face(cell, enter_and_unpark())


def as_face(cell: Cell, coroutine: Any) -> Any:
    """Call an engine as its face would."""
    if cell.face == "sync":
        return run(coroutine)
    return coroutine
