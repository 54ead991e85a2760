"""A process dies that held a lock and had several callers waiting for it: the next one waits one ttl, not one
for each of them."""

import asyncio
import time
from typing import Any

from tests.child import Child
from tests.conformance.cells import Cell, queued
from tests.waiting import soon, within

TTL = 3.0
DEAD = 6
"""Callers that died while they waited."""

LONGEST = 4 * TTL
"""Seconds until somebody follows: one ttl and patience with a busy machine, but far from one for each."""


async def test_a_row_of_the_dead_costs_one_ttl(cell: Cell) -> None:
    cell.needs("leases_expire")
    cell.needs("cross_process")
    watched, unwatched = f"{cell.name}:watched", f"{cell.name}:unwatched"
    client = cell.client()
    with Child(cell.face, cell.url) as crowd:
        assert crowd.call("crowd", names=[watched, unwatched], ttl=TTL, waiters=DEAD) == "crowded"
        heir = cell.actor().start(lambda: client.lock(watched, ttl=60).acquire())
        await queued(cell, client, DEAD + 1, watched)
        await queued(cell, client, DEAD, unwatched)
        crowd.kill()
    late = cell.client()
    both = await asyncio.gather(
        _followed(heir), _followed(cell.actor().start(lambda: late.lock(unwatched).acquire()))
    )
    for lease, took in both:
        assert took < LONGEST
        assert lease.abandoned, "the one before did not release"
    for lease, _ in both:
        await cell.run(lease.release)

    async def nobody() -> bool:
        # A request of the dead may still have been under way, and then it is one ttl more.
        seen = [await cell.run(lambda: client.inspect(name)) for name in (watched, unwatched)]  # noqa: B023
        return all((one.holders, one.waiting) == ((), 0) for one in seen)

    await soon(nobody, "nobody to be left behind")


async def _followed(heir: asyncio.Task[Any]) -> tuple[Any, float]:
    """The lease, and how long it took from now on."""
    begun = time.monotonic()
    return await within(heir), time.monotonic() - begun
