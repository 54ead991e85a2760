"""Cancelled at every single await, or interrupted: nothing stays behind."""

import asyncio
from contextlib import suppress
from itertools import count
from typing import Any

import pytest

import fencelock
from tests.child import Child
from tests.conformance.cells import Cell, lasting, queued
from tests.cutting_short import CancelledAt
from tests.deeds import DEEDS
from tests.waiting import soon


async def acquire_free(client: Any, name: str) -> None:
    await (await client.lock(name).acquire()).release()


async def wait_in_vain(client: Any, name: str) -> None:
    with suppress(fencelock.LockTimeout):
        await client.lock(name).acquire(timeout=0.05)


async def hold_and_renew(client: Any, name: str) -> None:
    async with client.lock(name, **lasting(client, 5)) as lease:
        await lease.renew(**lasting(client, 3))
        await asyncio.sleep(0)


async def try_once(client: Any, name: str) -> None:
    assert await client.lock(name).try_acquire() is None


@pytest.mark.parametrize("operation", [acquire_free, hold_and_renew, wait_in_vain, try_once])
async def test_cancelled_at_every_await(async_cell: Cell, operation: Any) -> None:
    cell = async_cell
    contended = operation in (wait_in_vain, try_once)
    other = cell.client()
    holder = await other.lock(cell.name).acquire() if contended else None
    before = asyncio.all_tasks()
    for k in count():
        client = fencelock.AsyncClient(cell.url)  # a new one each time: connecting has awaits too
        attempt = CancelledAt(operation(client, cell.name), k)
        task = asyncio.create_task(_run(attempt))
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if attempt.reached:
            assert isinstance(outcome, asyncio.CancelledError), outcome
        await soon(lambda: _left_alone(other, cell.name, holder), f"a clean queue after await {k}")
        assert client._context.idle
        await client.close()
        await soon(lambda: asyncio.all_tasks() <= before | other_tasks(other), "no task left")
        if not attempt.reached:
            break
    assert k > 0 or cell.engine == "memory", "there was nothing to cancel"


async def share(client: Any, name: str) -> None:
    async with client.rwlock(f"{name}:rw").write() as lease:
        await lease.downgrade()
    async with client.semaphore(f"{name}:s", 3, weight=2):
        pass


async def take_several(client: Any, name: str) -> None:
    async with client.lock_all([f"{name}:b", f"{name}:a"]):
        pass
    with suppress(fencelock.LockTimeout):
        await client.lock_all([f"{name}:a", f"{name}:obstacle"]).acquire(timeout=0.05)


async def wound(client: Any, name: str) -> None:
    await _transact(client, name, "wound-wait")


async def detect(client: Any, name: str) -> None:
    await _transact(client, name, "detect")


async def _transact(client: Any, name: str, policy: str) -> None:
    with suppress(fencelock.LockTimeout):
        async with client.transaction(policy, timeout=0.05) as transaction:
            await transaction.lock(f"{name}:a")
            await transaction.lock(f"{name}:obstacle")


async def be_elected(client: Any, name: str) -> None:
    election = client.election(f"{name}:e", "me")
    async with election:
        await election.proclaim("still me")


async def do_once(client: Any, name: str) -> None:
    async def work() -> int:
        return 7

    await client.once(f"{name}:o", work, keep=1)


async def end_a_transaction(client: Any, name: str) -> None:
    await DEEDS["transaction_run"].do(client, name, lambda: asyncio.sleep(0))


TRAITS = {
    share: ("supports_sharing",),
    do_once: ("supports_notes",),
    wound: ("fifo", "fenced_while_waiting"),
    detect: ("fifo", "fenced_while_waiting"),
}


@pytest.mark.parametrize(
    "operation",
    [share, take_several, end_a_transaction, wound, detect, be_elected, do_once],
    ids=lambda one: one.__name__,
)
async def test_every_primitive_is_cancelled_at_every_await(
    async_cell: Cell, operation: Any
) -> None:
    cell = async_cell
    for trait in TRAITS.get(operation, ()):
        cell.needs(trait)
    other = cell.client()
    _ = await other.lock(f"{cell.name}:obstacle").acquire()

    async def nothing_left() -> bool:
        return bool(await other.names(f"*{cell.name}*") == [f"{cell.name}:obstacle"])

    for k in count():
        client = fencelock.AsyncClient(cell.url, ttl=None)
        await client.names("nothing")  # connected: that was cancelled above
        attempt = CancelledAt(operation(client, cell.name), k)
        task = asyncio.create_task(_run(attempt))
        outcome = (await asyncio.gather(task, return_exceptions=True))[0]
        if attempt.reached:
            assert isinstance(outcome, asyncio.CancelledError), outcome
        else:
            assert outcome is None
        await soon(nothing_left, f"nothing to be left after await {k}")
        await soon(lambda: client._context.idle, f"nothing to be kept after await {k}")  # noqa: B023 - at once
        await client.close()
        if not attempt.reached:
            break
    assert k > 0 or cell.engine == "memory", "there was nothing to cancel"


async def test_cancelled_while_being_granted(async_cell: Cell) -> None:
    """The release and the cancellation race: the lock must end up free, or with the next waiter."""
    cell = async_cell
    client, other = cell.client(), cell.client()
    for delay in range(25):
        holder = await other.lock(cell.name).acquire()
        waiter = asyncio.create_task(client.lock(cell.name).acquire())
        await queued(cell, other, 1)
        release = asyncio.create_task(holder.release())
        for _ in range(delay):
            await asyncio.sleep(0)
        waiter.cancel()
        await release
        await asyncio.wait([waiter])
        if not waiter.cancelled():
            await waiter.result().release()
        lease = await asyncio.wait_for(other.lock(cell.name).acquire(), 10)
        await lease.release()
    assert client._context.idle


async def test_interrupted_while_waiting(sync_cell: Cell) -> None:
    cell = sync_cell
    if not cell.client().traits.cross_process:
        pytest.skip("trait cross_process=False: a child process can't meet this engine")
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name).acquire())
    with Child(cell.face, cell.url) as child:
        child.send("acquire", name=cell.name)
        await queued(cell, client, 1)
        child.interrupt()
        assert child.receive()["error"] == "KeyboardInterrupt"
        assert (await cell.run(lambda: client.inspect(cell.name))).waiting == 0
        await cell.run(lease.release)
        assert child.call("acquire", name=cell.name, timeout=5)["fence"] > lease.fence


async def _run(attempt: CancelledAt) -> None:
    await attempt


def other_tasks(client: Any) -> set[Any]:
    """The other client's keeper may start and end as it likes."""
    task = client._context._keeper._task
    return set() if task is None else {task._task}


async def _left_alone(client: Any, name: str, holder: Any) -> bool:
    seen = await client.inspect(name)
    fences = [one.fence for one in seen.holders]
    return seen.waiting == 0 and fences == ([holder.fence] if holder else [])
