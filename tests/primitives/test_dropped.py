"""A lease object that is gone without a release: renewal stops, and a warning says where it was acquired."""

from __future__ import annotations

import asyncio
import gc
import linecache
import re
import sys
import threading
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.io.clock import now
from fencelock.primitives.claim import DROPPED
from tests.deeds import DEEDS, Deed, done, inside, of_face
from tests.waiting import eventually, soon

LONG = 3600.0

Take = Callable[[Any, str, float], Awaitable[Any]]
"""Acquires a name (and maybe more), and returns the objects that are left to the program."""


@pytest.fixture
def url() -> str:
    return f"memory://{uuid4().hex}"


@pytest.fixture
def other(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url) as client:
        yield client


@pytest.fixture(params=["sync", "async"])
async def client(request: pytest.FixtureRequest, url: str) -> Any:
    if request.param == "sync":
        with fencelock.Client(url) as client:
            yield client
    else:
        async with fencelock.AsyncClient(url) as client:
            yield client


async def lock(client: Any, name: str, ttl: float) -> Any:
    return await done(client.lock(name, ttl=ttl).acquire())  # here


async def tried(client: Any, name: str, ttl: float) -> Any:
    return await done(client.lock(name, ttl=ttl).try_acquire())  # here


async def semaphore(client: Any, name: str, ttl: float) -> Any:
    return await done(client.semaphore(name, 1, ttl=ttl).acquire())  # here


async def lock_all(client: Any, name: str, ttl: float) -> Any:
    return await done(client.lock_all([name, f"{name}:b"], ttl=ttl).acquire())  # here


async def transaction(client: Any, name: str, ttl: float) -> Any:
    transaction = client.transaction(ttl=ttl)
    await done(transaction.lock(name))  # here
    return transaction


async def term(client: Any, name: str, ttl: float) -> Any:
    return await done(client.election(name, "me", ttl=ttl).campaign())  # here


async def entered_twice(client: Any, name: str, ttl: float) -> Any:
    lock = client.lock(name, ttl=ttl, reentrant=True)
    return [await done(lock.acquire()), await done(lock.acquire())]  # here


async def with_on_lost(client: Any, name: str, ttl: float) -> Any:
    def told(lease: Any) -> None:
        raise AssertionError("nobody needs to be told")

    return await done(client.lock(name, ttl=ttl, on_lost=told).acquire())  # here


async def guarded(client: Any, name: str, ttl: float) -> Any:
    class Guard:
        acts_alone = True

    async def raise_fence(lease: Any) -> None:
        lease.check()

    guard: Any = Guard()
    guard.raise_fence = of_face(client, raise_fence)
    return await done(client.lock(name, ttl=ttl, guard=guard).acquire())  # here


async def in_a_cycle(client: Any, name: str, ttl: float) -> Any:
    cycle: list[Any] = [await done(client.lock(name, ttl=ttl).acquire())]  # here
    cycle.append(cycle)
    return cycle


TAKE: list[Take] = [
    lock, tried, semaphore, lock_all, transaction, term, entered_twice, with_on_lost, guarded,
    in_a_cycle,
]  # fmt: skip


@contextmanager
def warned() -> Iterator[list[str]]:
    """What Python warns of in this block, garbage included: at least something."""
    said: list[str] = []
    with pytest.warns(ResourceWarning) as caught:  # noqa: PT031 - the block is the caller's
        yield said
        gc.collect()
    said += [str(warning.message) for warning in caught]


def assert_is_here(warning: str) -> None:
    """Whether it names a line of this file that acquires something."""
    place = re.search(r"acquired at (\S+):(\d+)", warning)
    assert place is not None, warning
    assert place[1] == __file__
    assert "# here" in linecache.getline(__file__, int(place[2]))


@pytest.mark.parametrize("take", TAKE)
async def test_the_next_holder_gets_it_after_the_ttl_and_finds_it_abandoned(
    take: Take, client: Any, other: fencelock.Client
) -> None:
    with warned() as said:
        await take(client, "x", LONG)
    assert len(said) == (2 if take in (lock_all, entered_twice) else 1)
    for each in said:
        assert "was never released" in each
        assert f"its ttl of {LONG:g} s" in each
        if isinstance(client, fencelock.Client):  # else `done` is what awaits it
            assert_is_here(each)

    await soon(lambda: client._context.idle, "nothing to be renewed")
    assert other.lock("x").try_acquire() is None, "its work may still be going on"
    await done(client.close())
    assert other.lock("x").try_acquire() is None, "the client does not release it any more"

    other._context.io.now = lambda: now() + LONG  # type: ignore[method-assign]
    lease = other.lock("x").try_acquire()
    assert lease is not None
    assert lease.abandoned == (take is not semaphore), "of permits nobody is told"
    lease.release()


def test_on_a_server_too(redis_url: str) -> None:
    name = uuid4().hex
    with fencelock.Client(redis_url) as client, fencelock.Client(redis_url) as other:
        with warned():
            client.lock(name, ttl=3).acquire()
        with other.lock(name) as lease:
            assert lease.abandoned


async def test_with_asyncio_the_warning_names_the_place(url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        with warned() as said:
            await client.lock("x", ttl=LONG).acquire()  # here
        assert_is_here(said[0])


async def test_a_task_that_has_ended_keeps_no_lease(url: str) -> None:
    """The caller is a task, and its result or the traceback of its error has the lease."""

    async def fail(client: fencelock.AsyncClient) -> None:
        lease = await client.lock("z", ttl=LONG).acquire()
        raise ValueError(f"so {lease} is not released")

    async with fencelock.AsyncClient(url) as client:
        with warned() as said:
            await asyncio.create_task(client.lock("x", ttl=LONG).acquire())
            await asyncio.wait_for(client.lock("y", ttl=LONG).acquire(), 60)
            with suppress(ValueError):
                await asyncio.create_task(fail(client))
            await asyncio.sleep(0)  # until then the loop itself has the last task
        assert sorted(each[:17] for each in said) == [f"the lease on {name!r} " for name in "xyz"]
        await soon(lambda: client._context.idle, "nothing to be renewed")


async def test_a_dropped_term_wakes_the_observers(client: Any, other: fencelock.Client) -> None:
    """The ticket at the bell goes with the term, so that observers look again."""
    with warned():
        await term(client, "x", LONG)
    await soon(lambda: not other.inspect("x (bell)").holders, "the bell to be free")
    assert other.inspect("x").holders


async def test_the_outer_lease_goes_on_without_the_inner(
    client: Any, other: fencelock.Client
) -> None:
    lock = client.lock("x", ttl=LONG, reentrant=True)
    outer = await done(lock.acquire())
    with warned():
        await done(lock.acquire())
    outer.check()
    assert other.lock("x").try_acquire() is None
    await done(outer.release())
    lease = other.lock("x").try_acquire()
    assert lease is not None
    assert not lease.abandoned
    lease.release()


async def test_the_inner_lease_goes_on_without_the_outer(
    client: Any, other: fencelock.Client
) -> None:
    lock = client.lock("x", ttl=LONG, reentrant=True)
    outer = await done(lock.acquire())
    inner = await done(lock.acquire())
    with warned():
        del outer
    inner.check()
    assert other.lock("x").try_acquire() is None
    await done(inner.release())
    lease = other.lock("x").try_acquire()
    assert lease is not None
    lease.release()


async def test_the_collector_may_run_anywhere(client: Any, other: fencelock.Client) -> None:
    """Even in a thread that holds a mutex, or in one that has no event loop."""
    context = client._context
    with warned():
        kept = [await in_a_cycle(client, "x", LONG), await in_a_cycle(client, "y", LONG)]
        kept.pop()
        with context._mutex, context.sweeper._mutex:
            gc.collect()
        kept.pop()
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join()
    await soon(lambda: context.idle, "nothing to be renewed")


async def test_a_warning_that_is_an_error_changes_nothing(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python only prints it, because a finalizer can't raise."""
    printed: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await lock(client, "x", LONG)
        gc.collect()
    await soon(lambda: client._context.idle, "nothing to be renewed")
    assert "never released" in str(printed.pop().exc_value)


def test_the_reason_is_known(url: str) -> None:
    with fencelock.Client(url) as client:
        lease = client.lock("x", ttl=LONG).acquire()
        claim = lease._claim
        with warned():
            del lease
        eventually(lambda: claim.reason == DROPPED, "the claim to end")


class TestNothingIsWarned:
    """… of a lease that was released, or that needs no release."""

    @pytest.fixture(autouse=True)
    def strict(self) -> Iterator[None]:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            yield
            gc.collect()

    @pytest.mark.parametrize("deed", DEEDS.values(), ids=DEEDS.keys())
    async def test_after_any_use(self, deed: Deed, client: Any) -> None:
        async def body() -> None:
            gc.collect(0)

        await deed.do(client, "x", body)

    @pytest.mark.parametrize("take", TAKE)
    async def test_if_the_client_was_closed(self, take: Take, client: Any) -> None:
        kept = await take(client, "x", LONG)
        if take is with_on_lost:
            kept._claim.callbacks()
        await done(client.close())
        del kept

    async def test_if_it_was_lost(self, client: Any, other: fencelock.Client) -> None:
        lease = await lock(client, "x", LONG)
        await done(client.break_lock("x"))
        assert lease.lost
        del lease

    async def test_if_its_ttl_passed(self, client: Any) -> None:
        lease = await lock(client, "x", LONG)
        client._context.lose(lease._claim, "as if its ttl had passed")
        del lease

    async def test_in_a_block_that_keeps_nothing_else(self, client: Any) -> None:
        async with inside(client.lock("x")):
            gc.collect()
            assert (await done(client.inspect("x"))).holders
