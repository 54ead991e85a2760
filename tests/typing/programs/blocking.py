"""A blocking program: see test_programs.py."""

from datetime import timedelta
from typing import Any, Unpack, assert_type

import fencelock
from fencelock.client import Options
from fencelock.guards import AsyncFencedFile, FencedFile

client = fencelock.Client("memory://")


def told(lease: fencelock.Lease) -> None:
    print(lease.fence)


def told_async(lease: fencelock.AsyncLease) -> None:
    print(lease.fence)


# What a client makes.
assert_type(client.lock("x"), fencelock.Lock)
assert_type(client.lock("x").try_acquire(), fencelock.Lease | None)
assert_type(client.rwlock("x"), fencelock.ReadWriteLock[fencelock.Lock])
assert_type(client.rwlock("x").read(), fencelock.Lock)
assert_type(client.semaphore("x", 3, weight=2), fencelock.Lock)
assert_type(client.lock_all(["x", "y"]), fencelock.LockAll)
assert_type(client.lock_all(["x", "y"]).acquire()["x"], fencelock.Lease)
assert_type(client.transaction("wound-wait", attempts=3), fencelock.Transaction)
assert_type(client.election("x", "me"), fencelock.Election)
assert_type(client.inspect("x", limit=3), fencelock.Inspection)
assert_type(client.names(), list[str])
assert_type(client.break_lock("x"), bool)
with client as same, same.lock("x") as lease:
    assert_type(same, fencelock.Client)
    assert_type(lease, fencelock.Lease)
client.inspect()  # error
client.Lock("x")  # error
client.lock("x").release()  # error
client.lock("x").acquire(blocking=False)  # error
client.lock("x").acquire().extend(10)  # error
client.lock("x", ttl=timedelta(minutes=5)).acquire(timeout=timedelta(seconds=3))
client.lock("x", blocking_timeout=3)  # error
client.inspect("x", 3)  # error
client.names(pattern=3)  # error

# Options: misspelt, of another type, or for something else.
client.lock("x", ttl=30, timeout=None, label="me", reentrant=True, purpose="correctness")
client.lock("x", on_lost=told, guard=FencedFile("x"))
client.lock("x", 30)  # error
client.lock("x", tll=30)  # error
client.lock("x", ttl="30")  # error
client.lock("x", purpose="certainty")  # error
client.lock("x", on_lost="cancel")  # error
client.lock("x", on_lost=told_async)  # error
client.lock("x", guard=AsyncFencedFile("x"))  # error
client.rwlock("x", on_lost=told, guard=FencedFile("x"))
client.rwlock("x", on_lost=told_async)  # error
client.rwlock("x", guard=AsyncFencedFile("x"))  # error
client.semaphore("x", 3, on_lost=told)
client.semaphore("x", 3, on_lost=told_async)  # error
client.semaphore("x", 3, reentrant=True)  # error
client.semaphore("x", "3")  # error
client.lock_all(["x"], on_lost=told, timeout=5)
client.lock_all(["x"], on_lost=told_async)  # error
client.lock_all(["x"], guard=FencedFile("x"))  # error
client.election("x", on_lost=told)
client.election("x", on_lost=told_async)  # error
client.transaction("wait-dye")  # error
client.transaction(on_lost=told)  # error


def order_lock(order: int, **options: Unpack[Options]) -> fencelock.Lock:
    return client.lock(f"order:{order}", **options)


order_lock(42, ttl=30)
order_lock(42, tll=30)  # error


# A function keeps its signature.
@client.locked("report:{day}", ttl=60, on_lost=told)
def build(day: str, *, times: int = 1) -> int:
    return len(day) * times


assert_type(build("monday", times=2), int)
build(day="monday")
build()  # error
build(3)  # error
build("monday", tiems=2)  # error


# Callers leave out the lease.
@client.locked("report:{day}")
def build_held(lease: fencelock.Lease, day: str, *, times: int = 1) -> int:
    return lease.fence * times


assert_type(build_held("monday", times=2), int)
build_held(day="monday")
build_held()  # error
build_held(lease, "monday")  # error


class Press:
    @client.locked("press")
    def build(self, day: str) -> int:
        return len(day)

    @client.locked("press")
    def build_held(self, lease: fencelock.Lease, day: str) -> int:
        return lease.fence


assert_type(Press().build("monday"), int)
assert_type(Press().build_held("monday"), int)
Press().build()  # error
Press().build_held()  # error
Press().build_held(lease, "monday")  # error


# The first parameter is the lease only if that is its name, whatever its type.
@client.locked("x")
def anything(day: Any) -> int:
    return len(day)


@client.locked("x")
def any_object(day: object) -> str:
    return str(day)


assert_type(anything("monday"), int)
assert_type(any_object("monday"), str)
anything()  # error


# No type can leave out a keyword: a checker asks for it. The function works without.
@client.locked("x")
def by_keyword(day: str, *, lease: fencelock.Lease) -> int:
    return lease.fence


by_keyword("monday")  # error


@client.locked("x", tll=60)  # error
def misspelt() -> None: ...


@client.locked("x")
def wrong_lease(lease: fencelock.AsyncLease) -> int:
    return lease.fence


wrong_lease()  # error

# Once.
assert_type(client.once("x", lambda: 7), int)
client.once("x", lambda lease: lease.fence, keep=60, errors=True)


def charge(lease: fencelock.Lease) -> str:
    return str(lease.fence)


def refund(order: int) -> str:
    return str(order)


assert_type(client.once("x", charge, timeout=5), str)
client.once("x", refund)  # error
client.once("x", charge, kepe=60)  # error


@client.scheduled("x", at_most_every=3600, ttl=5)
def report() -> int:
    return 7


@client.scheduled("x", at_most_every=3600)
def report_held(*, lease: fencelock.Lease) -> int:
    return lease.fence


assert_type(report(), int | None)
assert_type(report_held(), int | None)
report(3)  # error
client.scheduled("x")  # error
client.scheduled("x", at_most_every=3600, timeout=5)  # error


@client.scheduled("x", at_most_every=3600)  # error
def report_of(day: str) -> int:
    return len(day)
