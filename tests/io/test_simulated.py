"""The simulated world itself: time, order, pauses, cancellation, crashes, and that it can be replayed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fencelock.core.durations import DRIFT
from fencelock.core.errors import FencelockError
from fencelock.io.simulated import START, Cancelled, Livelock, SimulatedIO, World


@pytest.fixture
def world() -> Iterator[World]:
    world = World(1)
    yield world
    world.close()


def right(world: World, name: str = "p") -> SimulatedIO:
    """A process whose clock is right."""
    return world.process(name, rate=1.0)


def test_time_jumps_to_the_next_timer(world: World) -> None:
    io = right(world)
    woken: list[float] = []

    async def sleeper(seconds: float) -> None:
        await io.sleep(seconds)
        woken.append(world.time - START)

    for seconds in (3600.0, 5.0):
        io.spawn(sleeper(seconds), "sleeper")
    world.run()
    assert woken == [pytest.approx(5.0, abs=0.001), pytest.approx(3600.0, abs=0.001)]


def test_sleeping_is_never_too_short(world: World) -> None:
    io = world.process("p", rate=1 + DRIFT)

    async def sleeper() -> None:
        for seconds in (0.1, 1e-7, 0.3333333, 1e-12):
            until = io.now() + seconds
            await io.sleep(seconds)
            assert io.now() >= until

    io.spawn(sleeper(), "sleeper")
    world.run()
    assert not world.failures


def test_an_event_wakes_all_who_wait(world: World) -> None:
    io = right(world)
    event = io.event()
    answers: list[tuple[str, bool]] = []

    async def wait(who: str, timeout: float | None) -> None:
        answers.append((who, await event.wait(timeout)))

    io.spawn(wait("impatient", 1.0), "impatient")
    io.spawn(wait("patient", 10.0), "patient")
    io.spawn(wait("for ever", None), "for ever")
    io.spawn(wait("infinite", math.inf), "infinite")
    world.at(START + 5.0, event.set)
    world.run()
    assert answers[0] == ("impatient", False)
    assert sorted(answers[1:]) == [("for ever", True), ("infinite", True), ("patient", True)]
    assert event.is_set()
    event.clear()
    assert not event.is_set()


def test_waiting_for_what_is_set_already_still_lets_others_run(world: World) -> None:
    io = right(world)
    event = io.event()
    event.set()
    order: list[str] = []

    async def first() -> None:
        for _ in range(20):
            assert await event.wait()
            order.append("first")

    async def second() -> None:
        for _ in range(20):
            assert not await io.event().wait(0)
            order.append("second")

    io.spawn(first(), "first")
    io.spawn(second(), "second")
    world.run()
    assert order.index("second") < 20 < len(order) - order[::-1].index("first")


def test_a_pause_stops_every_task_of_a_process_and_no_other(world: World) -> None:
    paused, other = right(world, "paused"), right(world, "other")
    ticks: list[tuple[str, float]] = []

    async def tick(io: SimulatedIO) -> None:
        for _ in range(10):
            await io.sleep(1.0)
            ticks.append((io.name, world.time - START))

    for io in (paused, paused, other):
        io.spawn(tick(io), "ticking")
    world.at(START + 2.5, lambda: paused.pause(4.0))
    world.run()
    assert [when for who, when in ticks if who == "other"] == pytest.approx(range(1, 11), abs=0.01)
    stood_still = [when for who, when in ticks if who == "paused" and 2.6 < when < 6.5]
    assert not stood_still
    assert len(ticks) == 30, "and they all went on afterwards"


def test_a_clock_goes_on_during_a_pause(world: World) -> None:
    io = right(world)
    before = io.now()
    seen: list[float] = []

    async def look() -> None:
        await io.sleep(1.0)
        seen.append(io.now() - before)

    io.spawn(look(), "looking")
    world.at(START + 0.5, lambda: io.pause(9.5))
    world.run()
    assert seen == [pytest.approx(10.0, abs=0.01)]


def test_a_longer_pause_wins(world: World) -> None:
    io = right(world)
    done: list[float] = []

    async def work() -> None:
        done.append(world.time - START)

    io.spawn(work(), "working")
    io.pause(5.0)
    io.pause(1.0)
    world.run()
    assert done == [pytest.approx(5.0, abs=0.01)]


def test_a_crashed_process_never_runs_again_not_even_to_clean_up(world: World) -> None:
    io = right(world)
    ran: list[str] = []

    async def work() -> None:
        try:
            await io.sleep(1.0)
            ran.append("work")
        finally:
            ran.append("clean-up")
            await io.sleep(1.0)
            ran.append("more")

    io.spawn(work(), "working")
    world.at(START + 0.5, io.crash)
    world.run()
    assert not ran
    assert len(io.tasks) == 1
    world.close()
    assert not io.tasks, "closing the world ends what is left"
    assert "more" not in ran


def test_a_task_is_cancelled_where_it_waits(world: World) -> None:
    io = right(world)
    seen: list[str] = []

    async def work() -> None:
        try:
            await io.sleep(100.0)
        except Cancelled:
            seen.append(f"cancelled after {world.time - START:.1f} s")
            await io.sleep(1.0)  # cleaning up may wait
            seen.append("cleaned up")
            raise

    task = io.spawn(work(), "working")
    world.at(START + 2.0, task.cancel)
    world.run()
    assert seen == ["cancelled after 2.0 s", "cleaned up"]
    assert task.done
    assert isinstance(task.error, Cancelled)
    assert not world.failures, "to be cancelled is no failure"
    assert world.time < START + 5.0, "the abandoned timer does not hold up the end"


@pytest.mark.parametrize("count", range(1, 6))
def test_a_task_is_cancelled_at_its_kth_await(world: World, count: int) -> None:
    io = right(world)
    passed: list[int] = []

    async def work() -> None:
        for number in range(1, 6):
            await io.sleep(0.1)
            passed.append(number)

    io.spawn(work(), "working").cancel_at_await(count)
    world.run()
    assert passed == list(range(1, count))


def test_what_a_cancelled_task_waited_for_does_not_wake_it_again(world: World) -> None:
    io = right(world)
    event = io.event()
    seen: list[object] = []

    async def work() -> None:
        with suppress(Cancelled):
            await event.wait()
        seen.append(await io.event().wait(5.0))
        seen.append(round(world.time - START))

    task = io.spawn(work(), "working")
    world.at(START + 1.0, task.cancel)
    world.at(START + 2.0, event.set)
    world.run()
    assert seen == [False, 6]


def test_a_shielded_coroutine_outlives_its_caller(world: World) -> None:
    io = right(world)
    seen: list[str] = []

    async def precious() -> str:
        await io.sleep(5.0)
        seen.append("precious")
        return "result"

    async def caller() -> None:
        seen.append(await io.shield(precious()))

    io.spawn(caller(), "patient")
    hasty = io.spawn(caller(), "hasty")
    world.at(START + 1.0, hasty.cancel)
    world.run()
    assert seen.count("precious") == 2
    assert seen.count("result") == 1
    assert isinstance(hasty.error, Cancelled)


def test_a_shielded_error_reaches_whoever_waits(world: World) -> None:
    io = right(world)

    async def fail() -> None:
        await io.sleep(0)
        raise LookupError("nothing there")

    async def caller() -> None:
        with pytest.raises(LookupError):
            await io.shield(fail())

    task = io.spawn(caller(), "caller")
    world.run()
    assert task.error is None
    assert not world.failures


def test_a_task_that_dies_alone_is_reported(world: World) -> None:
    io = right(world)

    async def fail() -> None:
        raise LookupError("nothing there")

    task = io.spawn(fail(), "failing")
    world.run()
    assert [(failed, type(error)) for failed, error in world.failures] == [(task, LookupError)]


def test_calling_a_function_that_may_block(world: World) -> None:
    io = right(world)
    results: list[int] = []

    async def caller() -> None:
        results.append(await io.call(lambda a, b: a + b, 1, 2))

    io.spawn(caller(), "caller")
    world.run()
    assert results == [3]


def test_joining_oneself_or_the_dead_does_not_wait(world: World) -> None:
    io = right(world)

    async def nothing() -> None:
        pass

    async def joiner() -> None:
        await task.join()
        await me.join()

    task = io.spawn(nothing(), "nothing")
    world.run()
    me = io.spawn(joiner(), "joiner")
    world.run()
    assert me.done


def test_a_client_can_be_used_only_in_its_own_process(world: World) -> None:
    here, there = right(world, "here"), right(world, "there")

    async def use() -> None:
        here.verify()

    io_error = there.spawn(use(), "stranger")
    fine = here.spawn(use(), "at home")
    world.run()
    assert isinstance(io_error.error, FencelockError)
    assert "here" in str(io_error.error)
    assert fine.error is None
    with pytest.raises(FencelockError):
        here.verify()


def test_callers_are_told_apart(world: World) -> None:
    io = right(world)
    callers: list[object] = []

    async def ask() -> None:
        first = io.caller()
        await io.sleep(0)
        assert io.caller() is first
        callers.append(first)

    io.spawn(ask(), "one")
    io.spawn(ask(), "two")
    world.run()
    assert len(callers) == 2
    assert callers[0] != callers[1]


def test_clocks_differ_but_never_by_more_than_their_drift() -> None:
    world = World(3)
    processes = [world.process(str(number)) for number in range(50)]
    before = [io.now() for io in processes]
    assert len(set(before)) == 50, "each has booted at another moment"
    world.at(START + 1000.0, lambda: None)
    world.run()
    elapsed = [io.now() - start for io, start in zip(processes, before, strict=True)]
    assert all(1000 * (1 - DRIFT) - 1e-6 <= time <= 1000 * (1 + DRIFT) + 1e-6 for time in elapsed)
    assert min(elapsed) == pytest.approx(1000 * (1 - DRIFT)), "and some are as wrong as allowed"
    assert max(elapsed) == pytest.approx(1000 * (1 + DRIFT))


def test_a_livelock_is_noticed() -> None:
    world = World(1, max_steps=1000)
    io = world.process("p")

    async def spin() -> None:
        while True:
            await io.event().wait(0)

    io.spawn(spin(), "spinning")
    with pytest.raises(Livelock, match="no end after 1000 steps; <spinning of p>"):
        world.run()
    world.close()


def test_running_until_a_moment(world: World) -> None:
    io = right(world)

    async def tick() -> None:
        while True:
            await io.sleep(1.0)
            world.log("p", "tick")

    io.spawn(tick(), "ticking")
    world.run(until=START + 10.5)
    assert world.time == START + 10.5
    assert len(world.trace) == 10
    assert world.tail(1)[0].split() == [f"{world.trace[-1][0] - START:.5f}", "p", "tick"]


def test_closing_runs_no_further_code_in_what_is_left() -> None:
    world = World(1)
    io = world.process("p")
    ran: list[str] = []

    async def stubborn() -> None:
        while True:
            try:
                await io.sleep(1.0)
            finally:
                ran.append("finally")
                io.spawn(io.sleep(1.0), "more")

    io.spawn(stubborn(), "stubborn")
    world.run(until=START + 0.5)
    world.close()
    assert ran == ["finally"]
    assert not io.tasks


def scramble(seed: int) -> list[str]:
    """Many tasks that race: the trace says who came when."""
    world = World(seed)
    ios = [world.process(f"p{number}") for number in range(3)]

    async def run(io: SimulatedIO, name: str) -> None:
        for _ in range(10):
            await io.sleep(io.random.choice((0.0, 0.0, 0.01)))
            world.log(io.name, name)

    for io in ios:
        for name in "abc":
            io.spawn(run(io, name), name)
    world.run()
    return world.tail()


def test_the_same_seed_gives_the_same_run() -> None:
    assert scramble(5) == scramble(5)


def test_other_seeds_give_other_runs() -> None:
    orders = {tuple(line.split()[1] + line.split()[2] for line in scramble(s)) for s in range(20)}
    assert len(orders) == 20
