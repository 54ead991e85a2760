"""What a task awaits instead of a future: asyncio must accept it as one."""

from __future__ import annotations

import asyncio
import inspect
import sys
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from types import FrameType
from typing import Any

import pytest

from fencelock.engines.reply import Reply

CASE: ContextVar[str] = ContextVar("CASE")


@pytest.fixture
async def reply() -> Reply[str]:
    return Reply(asyncio.get_running_loop())


@pytest.fixture(params=["Task", "_PyTask"])
async def start(request: pytest.FixtureRequest) -> Any:
    """Begins a task, of either kind that Python brings: one is written in C."""
    return partial(getattr(asyncio.tasks, request.param), loop=asyncio.get_running_loop())


@pytest.fixture
async def task(reply: Reply[str], start: Any) -> Any:
    """A task that only waits for the reply."""

    async def wait() -> str:
        return await reply

    task = start(wait())
    await asyncio.sleep(0)
    return task


async def test_asyncio_has_not_changed_what_a_task_awaits() -> None:
    """`Reply` uses this private attribute, and these methods as a task calls them."""
    where = "look at engines/reply.py"
    futures: Any = asyncio.futures
    future = futures.Future()
    assert not future._asyncio_future_blocking, f"asyncio has changed its private flag: {where}"
    awaited = future.__await__()
    assert next(awaited) is future, f"a future does not yield itself any more: {where}"
    assert future._asyncio_future_blocking, f"asyncio does not set its flag: {where}"
    for method in ("add_done_callback", "cancel", "result"):
        mine = inspect.signature(getattr(Reply, method)).parameters
        theirs = inspect.signature(getattr(futures._PyFuture, method)).parameters
        assert len(mine) == len(theirs), f"asyncio calls {method}() in another way: {where}"


async def test_a_task_continues_in_the_call_that_read_the_reply(
    reply: Reply[str], start: Any
) -> None:
    said: list[str] = []

    async def wait() -> str:
        CASE.set("the task's own")
        said.append(await reply)
        said.append(CASE.get())
        return "done"

    task = start(wait())
    await asyncio.sleep(0)

    def read() -> None:
        reply.arrive("first")
        said.append("and then the caller")

    # As when a socket was read: called by the loop, and so by no task.
    asyncio.get_running_loop().call_soon(read)
    assert await task == "done"
    assert said == ["first", "the task's own", "and then the caller"]


async def test_what_has_arrived_before_is_there(reply: Reply[str]) -> None:
    reply.arrive("early")
    assert await reply == "early"
    reply.arrive("again")
    reply.fail(ValueError())
    assert await reply == "early"


async def test_a_task_can_let_another_task_continue(reply: Reply[str], task: Any) -> None:
    reply.arrive_soon("by a task")
    assert not task.done()
    assert await task == "by a task"


async def test_a_failure_is_raised(reply: Reply[str], task: Any) -> None:
    reply.fail(ConnectionError("cut"))
    with pytest.raises(ConnectionError, match="cut"):
        await task


async def test_a_cancelled_task_stops_and_a_late_value_is_dropped(
    reply: Reply[str], task: Any
) -> None:
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError):
        await task
    reply.arrive("late")
    reply.arrive_soon("late")
    assert not reply.cancel()


async def test_a_task_that_was_cancelled_before_it_waits_does_not_wait(
    reply: Reply[str], start: Any
) -> None:
    async def wait() -> None:
        itself.cancel()
        await reply

    itself = start(wait())
    with pytest.raises(asyncio.CancelledError):
        await itself


async def test_a_time_limit_ends_it(reply: Reply[str]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.001):
            await reply


async def test_a_task_cancelled_just_after_the_value_arrived_does_not_get_it(
    reply: Reply[str], task: Any
) -> None:
    reply.arrive_soon("too late to matter")
    task.cancel()  # the reply can't be, any more; but the task has not run since
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "end",
    [lambda it: it.fail(ConnectionError("cut")), lambda it: it.arrive_soon("there")],
    ids=["fail", "arrive"],
)
async def test_a_signal_handler_that_cancels_in_between_does_not_wake_it_twice(
    reply: Reply[str], start: Any, end: Any
) -> None:
    """Else the second time would end whatever it waits for next."""

    async def wait() -> str:
        with suppress(asyncio.CancelledError, ConnectionError):
            await reply
        await asyncio.sleep(0.01)
        return "undisturbed"

    task = start(wait())
    await asyncio.sleep(0)

    def interrupt(frame: FrameType, event: str, argument: object) -> None:
        # Python looks for signals at the beginning of a call.
        if frame.f_code is Reply._wake_up.__code__:
            sys.settrace(before)
            reply.cancel()

    before = sys.gettrace()
    sys.settrace(interrupt)
    try:
        end(reply)
    finally:
        sys.settrace(before)
    assert await task == "undisturbed"
