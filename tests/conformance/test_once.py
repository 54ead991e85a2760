"""Run once: one does the work, everybody has the result; and jobs that run once per period.

Here are the tests that third parties do not run: they need a second process.
"""

from __future__ import annotations

from typing import Any

from fencelock.testing.conformance.test_once import *  # noqa: F403
from tests.child import Child
from tests.conformance.cells import Cell


async def test_whoever_dies_at_it_is_followed(cell: Cell) -> None:
    cell.needs("supports_notes")
    cell.needs("cross_process")
    client = cell.client()
    seen: list[bool] = []

    def note(lease: Any) -> int:
        seen.append(lease.abandoned)
        return 7

    async def note_async(lease: Any) -> int:
        return note(lease)

    with Child(cell.face, cell.url) as child:
        child.call("acquire", name=cell.name, ttl=1.0)
        child.kill()
    work = note if cell.face == "sync" else note_async
    assert await cell.run(lambda: client.once(cell.name, work)) == 7
    assert seen == [True]
