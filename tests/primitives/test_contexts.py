"""One client in several processes and event loops: a context for each."""

from __future__ import annotations

import asyncio
import gc
import os
import warnings
from pathlib import Path

import pytest

import fencelock
from tests.io.test_fork import in_child


def test_a_lease_that_has_outlived_its_client_is_refused_in_a_child(tmp_path: Path) -> None:
    client = fencelock.Client(f"sqlite:///{tmp_path}/locks.db")
    lease = client.lock("x").acquire()
    del client
    gc.collect()

    def release() -> str:
        lease.release()
        return "released"

    assert "can't be used in its child" in in_child(release)
    lease.release()


def test_a_child_that_forgets_the_parents_lease_is_not_warned(tmp_path: Path) -> None:
    with fencelock.Client(f"sqlite:///{tmp_path}/locks.db") as client:
        leases = [client.lock("x").acquire()]

        def forget() -> str:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                leases.clear()
                gc.collect()
            return f"{len(caught)} warnings"

        assert in_child(forget) == "0 warnings"
        leases[0].renew()
        leases[0].release()


def test_in_memory_a_child_holds_nothing() -> None:
    with fencelock.Client("memory://copied") as client:
        lease = client.lock("x").acquire()

        def take() -> str:
            with client.lock("x") as own:
                return f"{own.owner.pid == os.getpid()} {own.abandoned}"

        assert in_child(take) == "True False"
        lease.release()


def test_a_client_works_in_one_event_loop_after_the_other(tmp_path: Path) -> None:
    client = fencelock.AsyncClient(f"sqlite:///{tmp_path}/locks.db")

    async def use() -> fencelock.AsyncLease:
        async with client.lock("x"):
            pass
        lease = await client.lock("y").acquire()
        await lease.release()
        await client.close()
        return lease

    earlier = asyncio.run(use())

    async def use_again() -> None:
        await use()
        with pytest.raises(fencelock.FencelockError, match="another event loop"):
            await earlier.release()

    asyncio.run(use_again())


def test_a_lease_of_a_loop_that_has_ended_is_lost(tmp_path: Path) -> None:
    """It counts as lost as soon as the client is used in another loop."""
    client = fencelock.AsyncClient(f"sqlite:///{tmp_path}/locks.db", ttl=3600)

    async def take() -> fencelock.AsyncLease:
        return await client.lock("x").acquire()

    lease = asyncio.run(take())

    async def use() -> None:
        async with client.lock("y"):
            assert lease.state is fencelock.LeaseState.LOST
        await client.break_lock("x")
        await client.close()

    asyncio.run(use())


async def test_two_loops_at_the_same_time(tmp_path: Path) -> None:
    """As in a program whose threads each run an event loop: the loops exclude each other."""
    client = fencelock.AsyncClient(f"sqlite:///{tmp_path}/locks.db", ttl=3600)

    async def try_it() -> bool:
        lease = await client.lock("x").try_acquire()
        if lease is not None:
            await lease.release()
        await client.close()
        return lease is not None

    async with client.lock("x"):
        assert not await asyncio.to_thread(asyncio.run, try_it())
    assert await asyncio.to_thread(asyncio.run, try_it())
    await client.close()
