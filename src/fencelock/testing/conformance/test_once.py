"""Run once: one does the work, everybody has the result; and jobs that run once per period."""

from __future__ import annotations

import asyncio
import threading
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, queued
from fencelock.testing.conformance.waiting import soon, within


class Work:
    """Counts how often it is done, and takes as long as the test wants, in both faces."""

    def __init__(self, cell: Cell, result: Any = None, *, pauses: bool = False) -> None:
        self.result = result
        self.times = 0
        self._going_on = threading.Event()
        if not pauses:
            self._going_on.set()
        self.function: Any = self._do if cell.face == "sync" else self._do_async

    def go_on(self) -> None:
        self._going_on.set()

    def _do(self, lease: Any) -> Any:
        self.times += 1
        assert self._going_on.wait(60)
        lease.check()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    async def _do_async(self, lease: Any) -> Any:
        self.times += 1
        await soon(self._going_on.is_set, "the test", 60)
        lease.check()
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


async def test_the_first_does_it_and_all_have_the_result(cell: Cell) -> None:
    cell.needs("supports_notes")
    client, other = cell.client(), cell.client()
    work = Work(cell, {"charged": 42, "für": ["日本", None]}, pauses=True)
    first = cell.actor().start(lambda: client.once(cell.name, work.function))
    await soon(lambda: work.times, "the beginning")
    others = [cell.actor().start(lambda: other.once(cell.name, work.function)) for _ in range(3)]
    await queued(cell, other, 3)
    work.go_on()
    assert await asyncio.wait_for(asyncio.gather(first, *others), 60) == [work.result] * 4
    assert await cell.run(lambda: other.once(cell.name, work.function)) == work.result
    assert work.times == 1


async def test_failures_are_tried_again_unless_they_are_to_be_kept(cell: Cell) -> None:
    cell.needs("supports_notes")
    client = cell.client()
    work = Work(cell, ValueError("no money"))
    for _ in range(2):
        with pytest.raises(ValueError, match="no money"):
            await cell.run(lambda: client.once(cell.name, work.function))
    assert work.times == 2
    with pytest.raises(ValueError, match="no money"):
        await cell.run(lambda: client.once(cell.name, work.function, errors=True))
    with pytest.raises(fencelock.RanBefore, match="ValueError: no money"):
        await cell.run(lambda: client.once(cell.name, work.function))
    assert work.times == 3


async def test_a_result_that_can_not_be_kept(cell: Cell) -> None:
    cell.needs("supports_notes")
    client = cell.client()
    work = Work(cell, {1, 2})
    for _ in range(2):
        with pytest.raises(TypeError, match="a set, can't be kept"):
            await cell.run(lambda: client.once(cell.name, work.function))
    assert work.times == 1, "it was done, and is not done again"


async def test_a_job_runs_once_per_period(cell: Cell) -> None:
    cell.needs("supports_notes")
    client, other = cell.client(), cell.client()
    work = Work(cell, "ran", pauses=True)
    job = client.scheduled(cell.name, at_most_every=600)(work.function)
    elsewhere = other.scheduled(cell.name, at_most_every=600)(work.function)
    running = cell.actor().start(job)
    await soon(lambda: work.times, "the beginning")
    assert await cell.run(elsewhere) is None, "it is running"
    work.go_on()
    assert await within(running) == "ran"
    assert await cell.run(elsewhere) is None, "it has run"
    assert await cell.run(job) is None
    assert work.times == 1


async def test_the_next_period_begins_and_failures_do_not_count(cell: Cell) -> None:
    cell.needs("supports_notes")
    client = cell.client()
    failing, work = Work(cell, OSError("disk full")), Work(cell, {1, 2})
    with pytest.raises(OSError, match="disk full"):
        await cell.run(client.scheduled(cell.name, at_most_every=0.4)(failing.function))
    job = client.scheduled(cell.name, at_most_every=0.4)(work.function)
    assert await cell.run(job) == {1, 2}, "any result will do"

    async def again() -> bool:
        return await cell.run(job) is not None

    await soon(again, "the next period")
    assert work.times == 2


async def test_what_once_must_be_given(cell: Cell) -> None:
    client = cell.client()
    work = Work(cell, 7)
    if not client.traits.supports_notes:
        with pytest.raises(fencelock.Unsupported, match="can't keep the result"):
            await cell.run(lambda: client.once(cell.name, work.function))
        return
    for keep in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="keep must be between"):
            await cell.run(partial(client.once, cell.name, work.function, keep=keep))
    wrong = Work(cell).function
    other = fencelock.AsyncClient(cell.url) if cell.face == "sync" else fencelock.Client(cell.url)
    with pytest.raises(TypeError):
        other.scheduled(cell.name, at_most_every=1)(wrong)
    assert work.times == 0
