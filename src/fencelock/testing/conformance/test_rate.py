"""Rates: so many permits in any span of time, by the engine's clock, in order of arrival."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Departure, Place, Share
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.test_sharing import Desk
from fencelock.testing.conformance.waiting import soon, within

LONG = 600.0
"""Seconds that no test takes."""


async def test_so_many_permits_and_no_more(cell: Cell) -> None:
    cell.needs("supports_rates")
    rate, other = cell.client().rate(cell.name, 3, LONG), cell.client().rate(cell.name, 3, LONG)
    await cell.run(rate.acquire)
    assert await cell.run(other.try_acquire) == (True, 0.0)
    await cell.run(rate.acquire)
    turn = await cell.run(other.try_acquire)
    assert not turn
    assert LONG / 2 < turn.wait <= LONG
    for timeout in (0, 0.1):
        with pytest.raises(
            fencelock.LockTimeout, match=r"3 permits per 600 s are taken; ask again in"
        ):
            await cell.run(partial(rate.acquire, timeout=timeout))
    seen = await cell.run(lambda: cell.client().inspect(cell.name))
    assert len(seen.holders) == 3
    assert not seen.waiting, "a caller that gave up left nothing"


async def test_several_permits_at_once_and_another_limit(cell: Cell) -> None:
    cell.needs("supports_rates")
    client = cell.client()
    assert await cell.run(client.rate(cell.name, 3, LONG, weight=2).try_acquire)
    assert not await cell.run(client.rate(cell.name, 3, LONG, weight=2).try_acquire)
    assert not await cell.run(client.rate(cell.name, 2, LONG).try_acquire)
    assert await cell.run(client.rate(cell.name, 3, LONG).try_acquire)
    assert not await cell.run(client.rate(cell.name, 3, LONG).try_acquire)
    assert await cell.run(client.rate(cell.name, 4, LONG).try_acquire), "all permits count"


async def test_permits_outlive_their_client_and_can_be_broken(cell: Cell) -> None:
    cell.needs("supports_rates")
    client, witness = cell.client(), cell.client()
    await cell.run(client.rate(cell.name, 1, LONG).acquire)
    await cell.run(client.close)
    assert not await cell.run(witness.rate(cell.name, 1, LONG).try_acquire)
    assert await cell.run(lambda: witness.break_lock(cell.name))
    assert await cell.run(witness.rate(cell.name, 1, LONG).try_acquire)


async def test_waiters_get_permits_in_turn(cell: Cell) -> None:
    """Each permit expires by itself, and no renewal brings news for long: the first waiter must look when
    a permit expires, and tell the next one that it is the first now."""
    cell.needs("supports_rates")
    client = cell.client()
    order: list[int] = []

    def waiter(number: int) -> asyncio.Task[Any]:
        rate = cell.client().rate(cell.name, 1, 0.4, ttl=LONG)

        async def turn() -> None:
            await cell.run(rate.acquire)
            order.append(number)

        return asyncio.create_task(turn())

    desk = Desk(cell)
    first = await desk.joined("first", Share.rate(1, LONG))
    # Another span is another group, so nobody can get in yet.
    waiters = []
    for number in range(3):
        waiters.append(waiter(number))
        await queued(cell, client, number + 1)
    assert await desk.leave(first)
    for each in waiters:
        await within(each)
    assert order == [0, 1, 2]


async def test_a_permit_lasts_from_its_admission(cell: Cell) -> None:
    """Whatever its ttl was while it waited, whoever admits it, and whatever is asked later."""
    cell.needs("supports_rates")
    desk = Desk(cell)
    share = Share.rate(2, 1000.0)

    async def ends() -> dict[str, float]:
        seen = await cell.run(lambda: desk.client.inspect(cell.name))
        return {one.owner.label: one.expires_in for one in seen.contenders}

    alone = await desk.joined("alone", share, ttl=30.0)
    assert await desk.renew(alone._replace(ttl=5000.0)) == [Place.ADMITTED]
    assert 900 < (await ends())["alone"] <= 1000
    again = await desk.enter(alone._replace(ttl=5000.0))
    assert again.place is Place.ADMITTED
    second = await desk.joined("second", share, ttl=5000.0)
    assert await desk.renew(alone, second) == [Place.ADMITTED] * 2
    waiting = desk.ticket("waiting", share, ttl=5000.0)
    standing = await desk.enter(waiting)
    assert standing.place is Place.WAITING
    assert 900 < standing.recheck <= 1000, "when the first permit expires"
    refused = await desk.enter(desk.ticket("refused", share), if_free=True)
    assert refused.place is Place.REFUSED
    assert 900 < refused.recheck <= 1000
    left = await ends()
    assert 4000 < left["waiting"] <= 5000, "it is renewed while it waits"
    assert await desk.leave(second, Departure.WITHDRAWN), (
        "a caller was cancelled at the last moment"
    )
    assert await desk.renew(alone, waiting) == [Place.ADMITTED] * 2
    left = await ends()
    assert left.keys() == {"alone", "waiting"}
    assert all(900 < seconds <= 1000 for seconds in left.values())


async def test_a_dead_waiter_is_in_the_way_for_its_ttl_at_most(cell: Cell) -> None:
    cell.needs("supports_rates")
    desk = Desk(cell)
    holder = await desk.joined("holder", Share.rate(1, LONG))
    await desk.joined("dead", Share.rate(1, LONG), ttl=0.5)
    waiter = asyncio.create_task(cell.run(cell.client().rate(cell.name, 1, LONG).acquire))
    await soon(lambda: _dead_is_gone(desk), "the dead waiter to be taken out")
    assert await desk.leave(holder)
    await within(waiter)


async def _dead_is_gone(desk: Desk) -> bool:
    _, waiters = await desk.picture()
    return len(waiters) == 1 and waiters != ["dead"]


async def test_an_engine_that_can_not_keep_a_rate_says_so(cell: Cell) -> None:
    if cell.traits.supports_rates:
        pytest.skip("trait supports_rates=True")
    client = cell.client()
    with pytest.raises(fencelock.Unsupported, match="can't limit a rate"):
        await cell.run(lambda: client.rate(cell.name, 3).acquire())


async def test_what_a_rate_must_be_given(cell: Cell) -> None:
    cell.needs("supports_rates")
    client = cell.client()
    for limit in (0, -1, 2.0, True, "3", 2**31, None):
        with pytest.raises(ValueError, match="limit must be a whole number"):
            client.rate(cell.name, limit)
    for per in (0, -1, 0.01, float("nan"), float("inf"), 1e9):
        with pytest.raises(ValueError, match="per must be between"):
            client.rate(cell.name, 3, per)
    with pytest.raises(TypeError, match="per must be a number"):
        client.rate(cell.name, 3, "60")
    with pytest.raises(ValueError, match="only 3 permits"):
        client.rate(cell.name, 3, weight=4)
    with pytest.raises(ValueError, match="name must not be empty"):
        client.rate("", 3)
    with pytest.raises(TypeError, match="no option 'on_lost'"):
        client.rate(cell.name, 3, on_lost=print)
