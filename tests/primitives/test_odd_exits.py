"""Ways out that take two things at once: a loss during an exit, an interruption of a release that fails."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from tests.cutting_short import InterruptAt
from tests.waiting import PATIENCE, eventually, soon


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


async def lead(client: fencelock.AsyncClient) -> None:
    await client.election("x", "me", on_lost="cancel").lead(lambda term: asyncio.sleep(3600))


async def check_in_the_end(client: fencelock.AsyncClient) -> None:
    async with client.lock("x", on_lost="cancel") as lease:
        try:
            await asyncio.sleep(3600)
        finally:
            lease.check()


async def swallow(client: fencelock.AsyncClient) -> None:
    async with client.lock("x", on_lost="cancel"):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)


@pytest.mark.parametrize("body", [lead, check_in_the_end, swallow])
async def test_a_cancellation_by_loss_is_taken_back(url: str, body: Callable[..., Any]) -> None:
    """Else the task counts as cancelled, and an `asyncio.timeout` around it goes wrong."""
    async with fencelock.AsyncClient(url) as client:
        task = asyncio.current_task()
        assert task is not None

        async def break_it() -> None:
            await soon(lambda: client.break_lock("x"), "the lock to be held")

        breaking = asyncio.create_task(break_it())
        with pytest.raises(fencelock.LeaseLost):
            await body(client)
        assert not task.cancelling()
        await breaking


async def test_a_task_that_notices_the_loss_itself_is_cancelled_too(url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        lock = client.lock("x", on_lost="cancel")

        async def go_on() -> None:
            async with lock as lease:
                client._context.lose(lease._claim, "for the test")
                assert lease.lost
                await asyncio.sleep(3600)

        with pytest.raises(fencelock.LeaseLost, match="for the test"):
            await go_on()


async def test_a_loss_during_the_exit_is_no_cancellation(url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        leave = client._context.engine.leave

        async def slow_leave(ticket: Any, **options: Any) -> bool:
            if ticket.name == "b":
                await client.break_lock("a")
            return await leave(ticket, **options)

        client._context.engine.leave = slow_leave  # type: ignore[method-assign]
        with pytest.raises(fencelock.LeaseLost, match="'a'"):
            async with client.lock_all(["a", "b"], on_lost="cancel"):
                pass


async def test_a_block_does_not_begin_with_a_lease_that_is_lost(url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        lease = await client.lock("x", on_lost="cancel").acquire()
        assert await client.break_lock("x")
        with pytest.raises(fencelock.LeaseLost):
            await lease.__aenter__()


def test_a_signal_handler_breaks_a_lock_while_the_keeper_is_busy(url: str) -> None:
    with fencelock.Client(url) as client:
        lease = client.lock("x").acquire()
        with client._context._mutex:  # as if the handler interrupted us there
            assert client.break_lock("x")
        assert lease.lost


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["lock", "lock_all", "election", "transaction"])
def test_a_release_that_fails_is_interrupted_at_every_step(url: str, kind: str) -> None:
    with fencelock.Client(url) as witness, fencelock.Client(url, ttl=600) as client:
        leave, failing = client._context.engine.leave, 0

        async def fail_twice(*args: Any, **options: Any) -> bool:
            nonlocal failing
            if failing:
                failing -= 1
                raise fencelock.EngineError("for the test", outcome="not applied")
            return await leave(*args, **options)

        client._context.engine.leave = fail_twice  # type: ignore[method-assign]

        def work() -> None:
            nonlocal failing
            with make(client, kind) as held:
                if kind == "transaction":
                    held.lock("a")
                failing = 2
                interrupt.arm()

        for k in count(1):  # before that, the block is not left yet
            interrupt, failing = InterruptAt(k), 0
            interrupt(work)
            failing = 0
            eventually(lambda: not witness.names(), f"nothing to be left after {interrupt.where}")
            eventually(lambda: client._context.idle, f"nothing kept after {interrupt.where}")
            if interrupt.where is None:
                break
        assert k > 30


def make(client: fencelock.Client, kind: str) -> Any:
    if kind == "lock_all":
        return client.lock_all(["a", "b"])
    return client.transaction("ordered") if kind == "transaction" else getattr(client, kind)("a")


@pytest.mark.parametrize("kind", ["lock", "lock_all"])
def test_closed_while_the_answer_is_under_way(redis_url: str, kind: str) -> None:
    """On an engine that asks nothing any more once it is closed."""
    name = uuid4().hex
    with fencelock.Client(redis_url) as witness:
        client = fencelock.Client(redis_url)
        operation = "enter" if kind == "lock" else "enter_free"
        answer, asked, go_on = (
            getattr(client._context.engine, operation),
            threading.Event(),
            threading.Event(),
        )

        async def slow(*args: Any, **options: Any) -> Any:
            answered = await answer(*args, **options)
            asked.set()
            go_on.wait(PATIENCE)
            return answered

        setattr(client._context.engine, operation, slow)
        errors: list[BaseException] = []

        def work() -> None:
            try:
                with client.lock(name) if kind == "lock" else client.lock_all([name]):
                    pass
            except fencelock.FencelockError as error:
                errors.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        assert asked.wait(PATIENCE)
        closing = threading.Thread(target=client.close)
        closing.start()
        eventually(lambda: client._context.closing, "the client to be closing")
        go_on.set()
        worker.join()
        closing.join()
        assert "closed" in str(errors[0])
        assert not witness.names(name), "nothing is held"


def test_a_lease_outlives_a_transaction_that_had_no_block(url: str) -> None:
    with fencelock.Client(url) as client:
        lease = client.transaction("ordered").lock("a")
        gc.collect()
        assert client.lock("a").try_acquire() is None
        lease.check()
        lease.release()


def test_a_block_gives_back_the_term_that_was_won_in_it(url: str) -> None:
    with fencelock.Client(url) as client:
        election = client.election("x", "me")
        with election:
            election.resign()
            election.campaign()
        assert election.leader() is None


async def test_two_proclamations_at_once(url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        election = client.election("x", "me")
        async with election:
            await asyncio.gather(election.proclaim("one"), election.proclaim("two"))
        await soon(lambda: client._context.idle, "nothing to be kept")
        assert not await client.names()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_proclaiming_and_observing_are_interrupted_at_every_step(url: str) -> None:
    with fencelock.Client(url) as witness, fencelock.Client(url, ttl=600) as client:

        def proclaim() -> None:
            election = client.election("x", "me")
            with election:
                interrupt.arm()
                election.proclaim("still me")

        def observe() -> None:
            # There is no leader and no bell, so it looks, and waits a moment, again and again.
            election = client.election("y")
            election._undoing(lambda undo: election._change(None, undo, over=lambda: bool(undo)))

        for act in (proclaim, observe):
            for k in count():
                interrupt = InterruptAt(k)
                interrupt(act)
                what = f"left of {act.__name__} after {interrupt.where}"
                eventually(lambda: not witness.names(), f"nothing to be {what}")
                eventually(lambda: client._context.idle, f"nothing kept to be {what}")
                if interrupt.where is None:
                    break


def test_a_callback_that_exits_does_not_end_the_keeper(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def leave(lease: object) -> None:
        raise SystemExit(1)

    with fencelock.Client(url) as client, fencelock.Client(url) as other:
        first = client.lock("x", ttl=1.5, on_lost=leave).acquire()
        second = client.lock("y", ttl=1.5).acquire()
        assert other.break_lock("x")
        eventually(lambda: "callback for 'x' failed" in caplog.text, "the callback to be called")
        assert other.break_lock("y")
        assert first.lost
        assert second.lost.wait(PATIENCE), "somebody still looks after it"
