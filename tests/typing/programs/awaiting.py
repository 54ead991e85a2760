"""An asyncio program: see test_programs.py."""

import asyncio
from typing import Unpack, assert_type

import fencelock
from fencelock.client import AsyncOptions
from fencelock.guards import AsyncFencedFile, FencedFile

client = fencelock.AsyncClient("memory://")


def told(lease: fencelock.AsyncLease) -> None:
    print(lease.fence)


def told_sync(lease: fencelock.Lease) -> None:
    print(lease.fence)


async def what_a_client_makes() -> None:
    assert_type(client.lock("x"), fencelock.AsyncLock)
    assert_type(await client.lock("x").try_acquire(), fencelock.AsyncLease | None)
    assert_type(client.rwlock("x"), fencelock.ReadWriteLock[fencelock.AsyncLock])
    assert_type(client.rwlock("x").read(), fencelock.AsyncLock)
    assert_type(client.semaphore("x", 3, weight=2), fencelock.AsyncLock)
    assert_type(client.lock_all(["x", "y"]), fencelock.AsyncLockAll)
    assert_type((await client.lock_all(["x", "y"]).acquire())["x"], fencelock.AsyncLease)
    assert_type(client.transaction("wound-wait", attempts=3), fencelock.AsyncTransaction)
    assert_type(client.election("x", "me"), fencelock.AsyncElection)
    assert_type(await client.inspect("x", limit=3), fencelock.Inspection)
    assert_type(await client.names(), list[str])
    assert_type(await client.break_lock("x"), bool)
    async with client as same, same.lock("x") as lease:
        assert_type(same, fencelock.AsyncClient)
        assert_type(lease, fencelock.AsyncLease)
    await client.names(pattern=3)  # error
    with client:  # error
        pass


# Options: misspelt, of another type, or for something else.
client.lock("x", on_lost=told, guard=AsyncFencedFile("x"))
client.lock("x", on_lost="cancel")
client.lock("x", on_lost="ignore")  # error
client.lock("x", on_lost=told_sync)  # error
client.lock("x", guard=FencedFile("x"))  # error
client.lock("x", tll=30)  # error
client.rwlock("x", on_lost="cancel", guard=AsyncFencedFile("x"))
client.rwlock("x", on_lost=told_sync)  # error
client.rwlock("x", guard=FencedFile("x"))  # error
client.semaphore("x", 3, on_lost="cancel")
client.semaphore("x", 3, on_lost=told_sync)  # error
client.semaphore("x", 3, reentrant=True)  # error
client.lock_all(["x"], on_lost="cancel")
client.lock_all(["x"], on_lost=told_sync)  # error
client.election("x", on_lost="cancel")
client.election("x", on_lost=told_sync)  # error
client.transaction("wait-dye")  # error
client.transaction(on_lost="cancel")  # error


def order_lock(order: int, **options: Unpack[AsyncOptions]) -> fencelock.AsyncLock:
    return client.lock(f"order:{order}", **options)


order_lock(42, on_lost="cancel")
order_lock(42, tll=30)  # error


# A function keeps its signature, and callers leave out the lease.
@client.locked("report:{day}", ttl=60, on_lost="cancel")
async def build(day: str, *, times: int = 1) -> int:
    return len(day) * times


@client.locked("report:{day}")
async def build_held(lease: fencelock.AsyncLease, day: str, *, times: int = 1) -> int:
    return lease.fence * times


class Press:
    @client.locked("press")
    async def build_held(self, lease: fencelock.AsyncLease, day: str) -> int:
        return lease.fence


assert_type(asyncio.run(build("monday", times=2)), int)
assert_type(asyncio.run(build_held("monday", times=2)), int)
assert_type(asyncio.run(Press().build_held("monday")), int)
build()  # error
build("monday", tiems=2)  # error
build_held()  # error
Press().build_held()  # error


@client.locked("x")  # error
def not_async(day: str) -> int:
    return len(day)


@client.locked("x", tll=60)  # error
async def misspelt() -> None: ...


# Once.
async def charge(lease: fencelock.AsyncLease) -> str:
    return str(lease.fence)


async def refund(order: int) -> str:
    return str(order)


async def nothing() -> int:
    return 7


async def once() -> None:
    assert_type(await client.once("x", nothing), int)
    assert_type(await client.once("x", lambda: nothing()), int)
    assert_type(await client.once("x", charge, timeout=5), str)
    await client.once("x", refund)  # error
    await client.once("x", lambda: 7)  # error
    await client.once("x", charge, kepe=60)  # error


@client.scheduled("x", at_most_every=3600, ttl=5)
async def report() -> int:
    return 7


@client.scheduled("x", at_most_every=3600)
async def report_held(lease: fencelock.AsyncLease) -> int:
    return lease.fence


assert_type(asyncio.run(report()), int | None)
assert_type(asyncio.run(report_held()), int | None)
report(3)  # error


@client.scheduled("x", at_most_every=3600)  # error
def report_at_once() -> int:
    return 7
