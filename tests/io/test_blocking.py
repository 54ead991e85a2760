"""The blocking world: coroutines run in one step, in the caller's own thread."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from functools import partial
from itertools import count

import pytest

from fencelock.io.blocking import BlockingIO, run
from tests.cutting_short import interrupted
from tests.waiting import eventually


async def double(number: int) -> int:
    return 2 * number


async def nested() -> int:
    return await double(await double(1))


def test_a_coroutine_that_never_suspends_runs_to_its_end() -> None:
    assert run(nested()) == 4


def test_errors_come_through() -> None:
    async def fail() -> None:
        raise LookupError("nothing there")

    with pytest.raises(LookupError, match="nothing there"):
        run(fail())


def test_it_runs_in_the_callers_thread() -> None:
    async def where() -> threading.Thread:
        return threading.current_thread()

    assert run(where()) is threading.current_thread()


def test_it_refuses_to_suspend() -> None:
    cleaned_up = []

    async def suspend() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            cleaned_up.append(True)

    with pytest.raises(RuntimeError, match="a coroutine suspended in a blocking program"):
        run(suspend())
    assert cleaned_up, "and it was closed, not left hanging"


def test_events() -> None:
    event = BlockingIO().event()
    assert not event.is_set()
    assert run(event.wait(0)) is False
    assert run(event.wait(-1)) is False
    event.set()
    assert event.is_set()
    assert run(event.wait()) is True
    assert run(event.wait(float("inf"))) is True
    assert run(event.wait(1e300)) is True
    event.clear()
    assert run(event.wait(0.001)) is False


def test_an_event_is_set_from_another_thread() -> None:
    event = BlockingIO().event()
    threading.Timer(0.01, event.set).start()
    assert run(event.wait(10)) is True


def test_spawning_starts_a_thread_that_does_not_keep_the_program_alive() -> None:
    io = BlockingIO()
    seen: list[threading.Thread] = []

    async def work() -> None:
        seen.append(threading.current_thread())

    run(io.spawn(work(), "fencelock-test").join())
    (thread,) = seen
    assert thread is not threading.current_thread()
    assert thread.name == "fencelock-test"
    assert thread.daemon
    eventually(lambda: not thread.is_alive(), "the thread's end")


def test_joining_oneself_does_not_wait() -> None:
    io = BlockingIO()
    started, done = threading.Event(), threading.Event()

    async def work() -> None:
        started.wait(10)
        await task.join()
        done.set()

    task = io.spawn(work(), "fencelock-test")
    started.set()
    assert done.wait(10)


def test_calls_and_shields_happen_at_once() -> None:
    io = BlockingIO()
    assert run(io.call(lambda a, b: a + b, 1, 2)) == 3
    assert run(io.shield(double(2))) == 4


def test_callers_are_threads() -> None:
    io = BlockingIO()
    callers: list[object] = [io.caller()]
    assert io.caller() is callers[0]
    thread = threading.Thread(target=lambda: callers.append(io.caller()))
    thread.start()
    thread.join()
    assert callers[0] != callers[1]


def test_the_clock_goes_forward() -> None:
    io = BlockingIO()
    first = io.now()
    assert io.now() >= first


@pytest.mark.parametrize("what", ["set", "wait"])
def test_no_interruption_breaks_an_event(what: str) -> None:
    """`threading.Event` keeps its lock if Ctrl-C hits it there, and then everyone hangs who sets it."""
    for moment in count():
        event = BlockingIO().event()
        with closing(event.wait(0)) as waiting:
            use = event.set if what == "set" else partial(next, waiting.__await__(), None)
            if not interrupted(moment, use, "fencelock/io", "threading.py"):
                break
        setting = threading.Thread(target=event.set, daemon=True)
        setting.start()
        setting.join(10)
        assert not setting.is_alive(), f"interrupted at moment {moment}"
        assert run(event.wait(10))
