"""Every primitive, from acquire to release, written once for sync and async.

A deed is one use of one primitive. It takes a client, a name and a body, and calls the body while it holds
the name. It calls the methods of a blocking client directly and awaits those of an `AsyncClient`. Add each
new primitive here: then all tests of the ways out include it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import fencelock

Body = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Deed:
    """One way to use one primitive."""

    do: Callable[[Any, str, Body], Coroutine[Any, Any, None]]
    traits: tuple[str, ...] = ()
    """The traits that the engine must have."""
    explicit: bool = False
    """Whether the program itself calls `release()`. Then it gets the error if the engine does not answer."""
    bare: bool = False
    """Whether it acquires outside a `with` block. Then an interruption may come after Fencelock has
    returned the lease and before the program has stored it."""
    cancelled: bool = False
    """Whether a lost lease cancels the body, with an `AsyncClient`."""
    holds: bool = True
    """Whether it holds something while the body runs, which can be lost."""
    notes: bool = False
    """Whether an outcome must be stored before the release."""


DEEDS: dict[str, Deed] = {}


def deed(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(do: Callable[..., Any]) -> Callable[..., Any]:
        DEEDS[do.__name__] = Deed(do, **options)
        return do

    return register


class inside:
    """`async with inside(block)`, for a sync or an async block."""

    def __init__(self, block: Any) -> None:
        self._block = block

    async def __aenter__(self) -> Any:
        if hasattr(self._block, "__aenter__"):
            return await self._block.__aenter__()
        return self._block.__enter__()

    async def __aexit__(self, *failure: Any) -> None:
        block, self._block = self._block, None  # no other reference to it, as in a real `with`
        if hasattr(block, "__aexit__"):
            await block.__aexit__(*failure)
        else:
            block.__exit__(*failure)


async def done(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


def drive(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a deed with a blocking client: nothing in it suspends."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("something suspended in a blocking program")


def of_face(client: Any, function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    """Return the coroutine function, or for a blocking client a plain function that does the same."""
    if isinstance(client, fencelock.AsyncClient):
        return function

    @functools.wraps(function)
    def plain(*args: Any, **options: Any) -> Any:
        return drive(function(*args, **options))

    return plain


@deed()
async def lock(client: Any, name: str, body: Body) -> None:
    async with inside(client.lock(name)):
        await body()


@deed()
async def lock_with_bounds(client: Any, name: str, body: Body) -> None:
    async with inside(client.lock(name, renew=False, max_hold=600)):
        await body()


@deed()
async def lock_reentered(client: Any, name: str, body: Body) -> None:
    lock = client.lock(name, reentrant=True)
    async with inside(lock):
        async with inside(lock):
            pass
        await body()


@deed(bare=True)
async def lease_as_a_block(client: Any, name: str, body: Body) -> None:
    async with inside(await done(client.lock(name).acquire())):
        await body()


@deed(explicit=True, bare=True)
async def acquire_and_release(client: Any, name: str, body: Body) -> None:
    lease = await done(client.lock(name).acquire())
    try:
        await body()
    finally:
        await done(lease.release())


@deed()
async def guarded_lock(client: Any, name: str, body: Body) -> None:
    class Guard:
        acts_alone = True

    async def raise_fence(lease: Any) -> None:
        lease.check()

    guard: Any = Guard()
    guard.raise_fence = of_face(client, raise_fence)
    async with inside(client.lock(name, guard=guard)):
        await body()


@deed()
async def locked(client: Any, name: str, body: Body) -> None:
    async def function(*, lease: Any) -> None:
        lease.check()
        await body()

    await done(client.locked(name)(of_face(client, function))())


@deed(traits=("supports_sharing",))
async def read(client: Any, name: str, body: Body) -> None:
    async with inside(client.rwlock(name).read()):
        await body()


@deed(traits=("supports_sharing",))
async def write_then_read(client: Any, name: str, body: Body) -> None:
    async with inside(client.rwlock(name).write()) as lease:
        await done(lease.downgrade())
        await body()


@deed(traits=("supports_sharing",))
async def semaphore(client: Any, name: str, body: Body) -> None:
    async with inside(client.semaphore(name, 3, weight=2)):
        await body()


@deed(traits=("supports_rates",), holds=False)
async def rate(client: Any, name: str, body: Body) -> None:
    await done(client.rate(name, 1000, per=0.1).acquire())
    await body()


@deed()
async def lock_all(client: Any, name: str, body: Body) -> None:
    async with inside(client.lock_all([f"{name}:b", f"{name}:c", f"{name}:a"])):
        await body()


@deed(bare=True)
async def leases_as_a_block(client: Any, name: str, body: Body) -> None:
    async with inside(await done(client.lock_all([f"{name}:b", f"{name}:a"]).acquire())):
        await body()


@deed(explicit=True, bare=True)
async def acquire_all_and_release(client: Any, name: str, body: Body) -> None:
    leases = await done(client.lock_all([f"{name}:b", f"{name}:c", f"{name}:a"]).acquire())
    try:
        await body()
    finally:
        await done(leases.release())


async def _take_three(transaction: Any, name: str, body: Body) -> None:
    for letter in "abc":
        await done(transaction.lock(f"{name}:{letter}"))
    await body()


@deed()
async def transaction(client: Any, name: str, body: Body) -> None:
    async with inside(client.transaction("ordered")) as transaction:
        await _take_three(transaction, name, body)


@deed()
async def transaction_run(client: Any, name: str, body: Body) -> None:
    async def work(transaction: Any) -> None:
        await _take_three(transaction, name, body)

    await done(client.transaction("timeout").run(of_face(client, work)))


@deed()
async def election(client: Any, name: str, body: Body) -> None:
    election = client.election(name, "me")
    async with inside(election):
        await done(election.proclaim("still me"))
        await body()


@deed(explicit=True, bare=True)
async def campaign_and_resign(client: Any, name: str, body: Body) -> None:
    election = client.election(name, "me")
    await done(election.campaign())
    try:
        await body()
    finally:
        await done(election.resign())


@deed(cancelled=True)
async def lead(client: Any, name: str, body: Body) -> None:
    async def started(term: Any) -> None:
        await body()

    await done(client.election(name, "me").lead(of_face(client, started)))


@deed(traits=("supports_notes",), notes=True)
async def once(client: Any, name: str, body: Body) -> None:
    async def work() -> None:
        await body()

    await done(client.once(_new(name), of_face(client, work), keep=600, errors=True))


@deed(traits=("supports_notes",), notes=True)
async def scheduled(client: Any, name: str, body: Body) -> None:
    async def job() -> None:
        await body()

    await done(client.scheduled(_new(name), at_most_every=600)(of_face(client, job))())


def _new(name: str) -> str:
    """Work that was done under one name is not done again."""
    return f"{name}:{uuid4().hex}"
