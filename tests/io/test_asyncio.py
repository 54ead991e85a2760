"""The asyncio world: one event loop, the first one in which it is used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fencelock.core.errors import FencelockError
from fencelock.io.asyncio import AsyncioIO


@pytest.fixture
async def io() -> AsyncIterator[AsyncioIO]:
    io = AsyncioIO()
    io.verify()
    yield io
    await io.close()


async def test_events(io: AsyncioIO) -> None:
    event = io.event()
    assert await event.wait(0) is False
    assert await event.wait(0.001) is False
    event.set()
    assert event.is_set()
    assert await event.wait() is True
    assert await event.wait(1.0) is True
    event.clear()
    assert not event.is_set()
    assert await event.wait(0) is False


async def test_an_event_is_set_from_another_thread(io: AsyncioIO) -> None:
    event = io.event()
    thread = threading.Thread(target=event.set)
    waiting = asyncio.create_task(event.wait(10))
    await asyncio.sleep(0)
    thread.start()
    assert await waiting is True
    thread.join()


async def test_an_event_wakes_all_who_wait(io: AsyncioIO) -> None:
    event = io.event()
    waiting = [asyncio.create_task(event.wait(10)) for _ in range(3)]
    await asyncio.sleep(0)
    event.set()
    assert await asyncio.gather(*waiting) == [True, True, True]


async def test_cancelling_one_who_waits(io: AsyncioIO) -> None:
    task = asyncio.create_task(io.event().wait(10))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_spawning_starts_a_task(io: AsyncioIO) -> None:
    seen: list[object] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        await task.join()  # joining oneself does not wait

    task = io.spawn(work(), "fencelock-test")
    await task.join()
    (ran,) = seen
    assert isinstance(ran, asyncio.Task)
    assert ran.get_name() == "fencelock-test"
    assert ran is not asyncio.current_task()


async def test_a_call_blocks_nobody_else(io: AsyncioIO) -> None:
    release = threading.Event()
    call = asyncio.create_task(io.call(release.wait, 10))
    await asyncio.sleep(0)
    assert not call.done(), "the loop goes on"
    release.set()
    assert await call is True


async def test_calls_are_carried_out_in_order_also_when_one_is_cancelled(io: AsyncioIO) -> None:
    begin, order = threading.Event(), []

    def first() -> None:
        begin.wait(10)
        order.append("first")

    call = asyncio.create_task(io.call(first))
    await asyncio.sleep(0)
    call.cancel()
    clean_up = asyncio.create_task(io.call(order.append, "clean-up"))
    await asyncio.sleep(0)
    begin.set()
    await clean_up
    assert order == ["first", "clean-up"]


async def test_a_shielded_coroutine_outlives_its_caller(io: AsyncioIO) -> None:
    go, done = asyncio.Event(), asyncio.Event()

    async def precious() -> str:
        await go.wait()
        done.set()
        return "result"

    caller = asyncio.create_task(io.shield(precious()))
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go.set()
    await asyncio.wait_for(done.wait(), 30)
    assert await io.shield(precious()) == "result"


async def test_closing_waits_for_what_is_shielded() -> None:
    io = AsyncioIO()
    io.verify()
    done: list[bool] = []

    async def precious() -> None:
        await asyncio.sleep(0.01)
        done.append(True)

    caller = asyncio.create_task(io.shield(precious()))
    await asyncio.sleep(0)
    caller.cancel()
    await io.close()
    assert done


async def test_callers_are_tasks(io: AsyncioIO) -> None:
    async def who() -> object:
        return io.caller()

    tasks = [asyncio.create_task(who()), asyncio.create_task(who())]
    one, other = await asyncio.gather(*tasks)
    assert io.caller() == io.caller()
    assert len({one, other, io.caller()}) == 3
    tasks.clear()
    assert len({one, other, await asyncio.create_task(who())}) == 3, "a later task is another one"


def test_it_belongs_to_the_loop_in_which_it_was_first_used() -> None:
    io = AsyncioIO()

    async def use() -> None:
        io.verify()
        io.verify()

    asyncio.run(use())
    with pytest.raises(FencelockError, match="belongs to another event loop"):
        asyncio.run(use())


def test_it_needs_a_loop() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        AsyncioIO().verify()


async def test_what_is_spawned_does_not_begin_before_its_spawner_goes_on(io: AsyncioIO) -> None:
    """Whatever the program has made of its tasks: who spawns may hold what the other one needs."""
    begun: list[str] = []

    def eager(loop: Any, coroutine: Any, **_: Any) -> Any:
        """As `asyncio.eager_task_factory` does for a coroutine that never suspends, from Python 3.12 on."""
        done = loop.create_future()
        try:
            coroutine.send(None)
        except StopIteration:
            done.set_result(None)
        return done

    async def begin() -> None:
        begun.append("it")

    asyncio.get_running_loop().set_task_factory(eager)
    task = io.spawn(begin(), "test")
    asyncio.get_running_loop().set_task_factory(None)
    assert begun == []
    await task.join()
    assert begun == ["it"]


def test_asyncio_still_has_what_we_use_of_it() -> None:
    """A private function of asyncio: the only way to ask for the running loop that does not raise."""
    told = getattr(asyncio, "_get_running_loop", None)
    assert told is not None, (
        "asyncio has no _get_running_loop any more: change fencelock/io/asyncio.py"
    )
    assert told() is None
