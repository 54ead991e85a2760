"""Rates: so many permits in any span of time, by the engine's clock, in order of arrival.

Here are the tests that third parties do not run: they need a second process.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fencelock.testing.conformance.test_rate import *  # noqa: F403
from tests.admissions import Admissions
from tests.conformance.cells import Cell
from tests.effort import effort
from tests.waiting import soon, within


async def test_no_span_has_more_admissions(cell: Cell) -> None:
    cell.needs("supports_rates")
    limit, per, wanted = 4, 0.5, effort(13, 60)
    witness, log = cell.client(), Admissions()
    enough = asyncio.Event()

    async def ask(rate: Any) -> None:
        while not enough.is_set():
            await cell.run(rate.acquire)

    askers = [asyncio.create_task(ask(cell.client().rate(cell.name, limit, per))) for _ in range(3)]

    async def look() -> bool:
        log.look(await cell.run(lambda: witness.inspect(cell.name)))
        return len(log) >= wanted

    await soon(look, f"{wanted} admissions")
    enough.set()
    for each in askers:
        await within(each)
    assert log.most_within(per) <= limit
