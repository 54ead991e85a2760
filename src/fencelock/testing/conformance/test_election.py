"""Leader election: one leader a term, terms that grow, and everybody hears of a change."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

import fencelock
from fencelock.testing.conformance.cells import Cell, lasting, queued
from fencelock.testing.conformance.waiting import PATIENCE, soon, within


class Observer:
    """Collects what `observe()` says, in both faces."""

    def __init__(self, cell: Cell, election: Any) -> None:
        self.seen: list[Any] = []
        self._task: asyncio.Task[None] | None = None
        if cell.face == "async":
            self._task = asyncio.create_task(self._collect(election))
        else:
            threading.Thread(target=self._listen, args=(election,), daemon=True).start()

    async def _collect(self, election: Any) -> None:
        async for leader in election.observe():
            self.seen.append(leader)

    def _listen(self, election: Any) -> None:
        with contextlib.suppress(fencelock.FencelockError):  # its client was closed
            self.seen.extend(election.observe())

    async def sees(self, *values: str | None) -> None:
        def all_seen() -> bool:
            return [leader and leader.value for leader in self.seen] == list(values)

        try:
            await soon(all_seen, f"{values}")
        except AssertionError as error:
            error.add_note(f"but it saw {self.seen}")
            raise

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


@contextlib.asynccontextmanager
async def observing(cell: Cell, election: Any) -> AsyncIterator[Observer]:
    observer = Observer(cell, election)
    try:
        yield observer
    finally:
        await observer.stop()


async def test_one_leads_and_the_next_follows(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    mine, theirs = client.election(cell.name, "one"), other.election(cell.name, "two")
    assert await cell.run(mine.leader) is None
    term = await cell.run(mine.campaign)
    leader = await cell.run(theirs.leader)
    assert (leader.value, leader.term) == ("one", term.fence)
    follower = cell.actor().start(theirs.campaign)
    await queued(cell, client, 1)
    with pytest.raises(fencelock.FencelockError, match="already"):
        await cell.run(mine.campaign)
    await cell.run(mine.resign)
    following = await within(follower)
    assert following.fence > term.fence
    assert (await cell.run(mine.leader)).value == "two"
    await cell.run(mine.resign)  # it leads no more, so nothing happens
    following.check()
    await cell.run(theirs.resign)
    assert await cell.run(mine.leader) is None


async def test_who_observes_hears_of_every_change(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    mine, theirs = client.election(cell.name, "one"), other.election(cell.name, "two")
    async with observing(cell, other.election(cell.name)) as observer:
        await _watch_two_leaders(cell, client, mine, theirs, observer)


async def _watch_two_leaders(
    cell: Cell, client: Any, mine: Any, theirs: Any, observer: Observer
) -> None:
    await observer.sees(None)
    await cell.run(mine.campaign)
    await observer.sees(None, "one")
    await cell.run(lambda: mine.proclaim("uno"))
    await observer.sees(None, "one", "uno")
    following = cell.actor().start(theirs.campaign)
    await queued(cell, client, 1)
    await cell.run(mine.resign)
    await within(following)
    await soon(lambda: observer.seen[-1] and observer.seen[-1].value == "two", "the new leader")
    terms = [leader.term for leader in observer.seen if leader]
    assert terms == sorted(terms)
    assert terms[0] == terms[1] < terms[-1]


async def test_a_lost_term_is_heard_of_though_the_leader_lives_on(cell: Cell) -> None:
    cell.needs("leases_expire")
    cell.needs("supports_sharing")
    client, other = cell.client(), cell.client()
    election = client.election(cell.name, "me", ttl=300)
    term = await cell.run(election.campaign)
    # It would look by itself, but not for minutes.
    async with observing(cell, other.election(cell.name, ttl=300)) as observer:
        await observer.sees("me")
        assert await cell.run(lambda: other.break_lock(cell.name))
        with pytest.raises(fencelock.LeaseLost):
            await cell.run(term.renew)
        await observer.sees("me", None)


async def test_callbacks(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    election = client.election(cell.name, "me", **lasting(client, 60))
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    going_on = asyncio.Event()

    async def work(term: Any) -> str:
        events.put(("started", term.fence))
        await going_on.wait()
        return "done"

    def blocking_work(term: Any) -> str:
        events.put(("started", term.fence))
        while not going_on.is_set():
            threading.Event().wait(0.01)
        return "done"

    told: list[Any] = []
    job = cell.actor().start(
        lambda: election.lead(
            work if cell.face == "async" else blocking_work,
            stopped=lambda term: events.put(("stopped", term.fence)),
            new_leader=told.append,
        )
    )
    await soon(lambda: not events.empty(), "the beginning")
    assert (await cell.run(other.election(cell.name).leader)).value == "me"
    await soon(lambda: told, "the leader to be told of itself")
    going_on.set()
    assert await within(job) == "done"
    (_, first), (what, second) = events.get(), events.get()
    assert (what, first) == ("stopped", second)
    assert events.empty()
    assert told[0].value == "me"
    assert await cell.run(other.election(cell.name).leader) is None


async def test_a_term_that_is_lost_ends_the_work(cell: Cell) -> None:
    client, other = cell.client(), cell.client()
    election = client.election(cell.name, "me", **lasting(client, 1.5))
    stopped: list[Any] = []

    async def work(term: Any) -> None:
        await other.break_lock(cell.name)
        await asyncio.sleep(60)

    def blocking_work(term: Any) -> None:
        other.break_lock(cell.name)
        assert term.lost.wait(PATIENCE)

    with pytest.raises(fencelock.LeaseLost):
        await asyncio.wait_for(
            cell.actor().do(
                lambda: election.lead(
                    work if cell.face == "async" else blocking_work, stopped=stopped.append
                )
            ),
            60,
        )
    await soon(lambda: stopped, "it to be told")
    assert len(stopped) == 1, "once"


async def test_what_a_leader_may_say(cell: Cell) -> None:
    client = cell.client()
    for value in ("two\nlines", "x" * 1001):
        with pytest.raises(ValueError, match="at most 1000 printable"):
            client.election(cell.name, value)
    with pytest.raises(TypeError, match="must be a str"):
        client.election(cell.name, 7)
    election = client.election(cell.name, "é" * 1000)
    await cell.run(election.campaign)
    assert (await cell.run(election.leader)).value == "é" * 1000
    await cell.run(election.resign)
