"""Clients leave nothing behind, as counted on the servers."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

import fencelock
from fencelock.engines.zookeeper.nodes import escaped
from tests.conformance.cells import OpenCell
from tests.effort import effort
from tests.engines.zookeeper.observing import Witness, connected, server_state
from tests.servers_zookeeper import Ensemble
from tests.waiting import soon, within

ATTEMPTS = effort(100, 400)


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """An ensemble that removes empty containers every second. No test here harms it."""
    with Ensemble(tmp_path_factory.mktemp("tidy"), tidy=1) as ensemble:
        yield ensemble


@pytest.fixture
async def private(tidy: Ensemble) -> Ensemble:
    """That ensemble, once nothing of the tests before is left there."""
    nothing = {"tickets": 0, "sessions": 0, "watches": 0}
    await soon(lambda: server_state(tidy) == nothing, "other tests to hang up")
    return tidy


async def as_before(ensemble: Ensemble, before: dict[str, int]) -> None:
    with suppress(AssertionError):
        await soon(lambda: server_state(ensemble) == before, "nothing to be left")
    assert server_state(ensemble) == before


async def _with_one_holder(ensemble: Ensemble) -> dict[str, int]:
    """What there is beside a holder and another client, once the leader has applied it, too."""
    before = {"tickets": 1, "sessions": 2, "watches": 0}
    await as_before(ensemble, before)
    return before


@pytest.mark.slow
@pytest.mark.parametrize("face", ["sync"], indirect=True)  # the async face is cancelled, below
async def test_hundreds_of_attempts_that_fail(private: Ensemble, open_cell: OpenCell) -> None:
    cell = open_cell(private.url)
    holder, client = cell.client(), cell.client()
    await connected(cell, client)
    lease = await cell.run(lambda: holder.lock(cell.name, ttl=9).acquire())
    before = await _with_one_holder(private)
    actors = [cell.actor() for _ in range(20)]

    async def attempt(number: int) -> None:
        lock, actor = client.lock(cell.name), actors[number % len(actors)]
        if number % 4 == 0:
            assert await actor.do(lock.try_acquire) is None
        else:
            with suppress(fencelock.LockTimeout, fencelock.EngineError):  # 1 ms may be too short
                await actor.do(lambda: lock.acquire(timeout=0.001 * (number % 7)))

    for start in range(0, ATTEMPTS, len(actors)):
        await asyncio.gather(*(attempt(start + number) for number in range(len(actors))))
    # A watch on the holder may remain until it is renewed. Then no client asks for another one.
    await as_before(private, before)
    assert client._context.engine._entries == {}
    assert client._context.engine._queues.waiting == {}
    assert client._context.engine._queues.signals == {}
    assert client._context.engine._doubtful == set()
    lease.check()


@pytest.mark.slow
@pytest.mark.parametrize("face", ["async"])
async def test_hundreds_of_attempts_that_are_cancelled(
    private: Ensemble, open_cell: OpenCell
) -> None:
    cell = open_cell(private.url)
    holder, client = cell.client(), cell.client()
    await connected(cell, client)
    lease = await holder.lock(cell.name, ttl=9).acquire()
    before = await _with_one_holder(private)

    async def attempt(number: int) -> None:
        task = asyncio.create_task(client.lock(cell.name).acquire())
        await asyncio.sleep(0.0003 * (number % 40))
        task.cancel()
        await asyncio.wait([task])

    for start in range(0, ATTEMPTS, 20):
        await asyncio.gather(*(attempt(start + number) for number in range(20)))
    await as_before(private, before)
    assert client._context.engine._queues.waiting == {}
    assert client._context.engine._queues.signals == {}
    lease.check()


async def test_closing_ends_the_session(private: Ensemble, open_cell: OpenCell) -> None:
    cell = open_cell(private.url)
    before = server_state(private)
    clients = [cell.client() for _ in range(5)]
    for client in clients:
        await connected(cell, client)
    assert server_state(private)["sessions"] > before["sessions"]
    for client in clients:
        await cell.run(client.close)
    await as_before(private, before)


async def test_an_empty_container_is_removed_and_the_fence_grows_all_the_same(
    private: Ensemble, open_cell: OpenCell, witness: Callable[[Ensemble], Witness]
) -> None:
    cell, seen = open_cell(private.url), witness(private)
    client = cell.client()
    path = f"/fencelock/{escaped(cell.name)}"
    fences: list[int] = []
    for _ in range(2):
        lease = await cell.run(lambda: client.lock(cell.name).acquire())
        assert seen.tickets(cell.name, "")[0].endswith(".0000000000"), "the sequence starts again"
        assert not lease.abandoned
        fences.append(lease.fence)
        await cell.run(lease.release)
        await soon(lambda: not seen.client.exists(path), "the container to go")
    assert fences[0] < fences[1]


async def test_a_container_may_go_at_any_time(
    private: Ensemble, open_cell: OpenCell, witness: Callable[[Ensemble], Witness]
) -> None:
    """The test deletes it whenever it is empty, far more often than the servers do."""
    cell, seen = open_cell(private.url), witness(private)
    client = cell.client()
    await connected(cell, client)
    fences: list[int] = []
    path = f"/fencelock/{cell.name}"
    over = asyncio.Event()

    async def delete() -> None:
        while not over.is_set():
            with suppress(Exception):
                await asyncio.to_thread(seen.client.delete, path)

    deleting = asyncio.create_task(delete())
    actor = cell.actor()
    for _ in range(50):
        lease = await within(actor.start(lambda: client.lock(cell.name).acquire()))
        fences.append(lease.fence)
        await actor.do(lease.release)
    over.set()
    await deleting
    assert fences == sorted(set(fences))
