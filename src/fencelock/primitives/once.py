"""Run once: the first caller does the work under a lock, and its result is kept for all other callers."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar, overload

from fencelock.core.durations import Duration, check_keep
from fencelock.core.errors import FencelockError, LeaseLost, RanBefore, Unsupported
from fencelock.io.blocking import run
from fencelock.primitives.blocks import Undo, undo_all
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import AsyncLock, BaseLock, Lock
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Lease_contra = TypeVar("Lease_contra", contravariant=True)

NO_NOTES = (
    "this engine can't keep the result of a run. Use sqlite://, redis://, etcd://, zookeeper://, "
    "postgresql:// or mysql://"
)


class TakesLease(Protocol[Lease_contra, T_co]):
    """Work that gets the lease under which it runs."""

    def __call__(self, *, lease: Lease_contra) -> T_co: ...


AsyncJob = Callable[[], Coroutine[Any, Any, T | None]]


class Schedule(Protocol):
    """Decorates a job. A call returns None if the job is not due."""

    @overload
    def __call__(self, job: Callable[[], T]) -> Callable[[], T | None]: ...
    @overload
    def __call__(self, job: TakesLease[Lease, T]) -> Callable[[], T | None]: ...


class AsyncSchedule(Protocol):
    """The same for a coroutine function."""

    @overload
    def __call__(self, job: Callable[[], Awaitable[T]]) -> AsyncJob[T]: ...
    @overload
    def __call__(self, job: TakesLease[AsyncLease, Awaitable[T]]) -> AsyncJob[T]: ...


class Once:
    """Work to do once, and the note that says what came of it."""

    def __init__(
        self,
        lock: BaseLock[Any],
        work: Callable[..., Any],
        *,
        keep: Duration,
        results: bool = True,
        errors: bool = False,
    ) -> None:
        if not lock._contexts.traits.supports_notes:
            raise Unsupported(NO_NOTES, name=lock.name)
        if not callable(work):
            raise TypeError(f"the work to run once must be a function, not {work!r}")
        self._lock = lock
        self._work = work
        self._wants_lease = "lease" in inspect.signature(work).parameters
        self._keep = check_keep("keep" if results else "at_most_every", keep)
        self._results = results
        self._errors = errors

    async def known(self) -> str | None:
        """The note, if the work was done before."""
        engine = self._lock._contexts.here().engine
        return await engine.recall(self._lock.name, timeout=REQUEST_TIMEOUT)

    async def perform(self, lease: BaseLease) -> Any:
        """Do the work and write the note. `keep` counts from the beginning of the work."""
        began = lease._context.io.now()
        try:
            result = self._work(lease=lease) if self._wants_lease else self._work()
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:
            if self._errors:
                await self._note_failure(error, lease, began)
            raise
        try:
            await self._note({"result": result if self._results else None}, lease, began)
        except TypeError as error:
            # The work was done all the same, and must not be done again.
            await self._note({"unfit": type(result).__name__}, lease, began)
            raise _unfit(self._lock.name, type(result).__name__) from error
        return result

    async def _note_failure(self, error: Exception, lease: BaseLease, began: float) -> None:
        kind = type(error).__name__
        try:
            await self._note({"error": f"{kind}: {error}" if str(error) else kind}, lease, began)
        except FencelockError as failure:  # the work's own error says more
            error.add_note(f"Besides, the failure could not be kept: {failure}")

    async def done(self, lease: BaseLease, began: float) -> None:
        """Write the note after the caller has done the work itself, without `perform`."""
        await self._note({"result": None}, lease, began)

    async def _note(self, outcome: dict[str, Any], lease: BaseLease, began: float) -> None:
        text = json.dumps(outcome)
        # Above zero: the work may have taken longer than its result is kept.
        context, ticket = lease._context, lease._claim.ticket
        keep = max(0.001, self._keep - (context.io.now() - began))
        lease.check()
        if not await context.engine.remember(ticket, text, keep=keep, timeout=REQUEST_TIMEOUT):
            raise LeaseLost(
                f"{lease.name!r} was done, but the lease was lost before the result could be kept: the "
                "work may be done again. Let your storage check the fence",
                name=lease.name,
                reason="its result could not be kept",
            )

    def outcome(self, text: str) -> Any:
        """The result that a note holds. Raises if the note is about an error."""
        note = json.loads(text)
        if "error" in note:
            raise RanBefore(
                f"{self._lock.name!r} ran before and failed: {note['error']}", name=self._lock.name
            )
        if "unfit" in note:
            raise _unfit(self._lock.name, note["unfit"])
        return note["result"]


def _unfit(name: str, kind: str) -> TypeError:
    return TypeError(
        f"{name!r} was done, but its result, a {kind}, can't be kept: return what JSON can hold"
    )


def once(lock: Lock, work: Callable[..., T], *, keep: Duration, errors: bool) -> T:
    """Do the work, or return the result of an earlier run. Waits while another caller does the work."""
    task = Once(lock, work, keep=keep, errors=errors)
    note = run(task.known())
    if note is None:
        with lock as lease:
            note = run(task.known())  # the work may have been done in the meantime
            if note is None:
                result: T = run(task.perform(lease))
                return result
    kept: T = task.outcome(note)
    return kept


async def async_once(
    lock: AsyncLock, work: Callable[..., Awaitable[T]], *, keep: Duration, errors: bool
) -> T:
    """The same for asyncio."""
    task = Once(lock, work, keep=keep, errors=errors)
    note = await task.known()
    if note is None:
        async with lock as lease:
            note = await task.known()
            if note is None:
                result: T = await task.perform(lease)
                return result
    kept: T = task.outcome(note)
    return kept


def scheduled(lock: Lock, period: Duration) -> Schedule:
    """Decorate a function so that it runs once per period, however many call it."""

    def decorate(job: Callable[..., T]) -> Callable[[], T | None]:
        if inspect.iscoroutinefunction(job):
            raise TypeError(f"{job.__qualname__} is async: decorate it with an AsyncClient")
        task = Once(lock, job, keep=period, results=False)

        @functools.wraps(job)
        def wrapper() -> T | None:
            if run(task.known()) is not None:
                return None
            undo: list[Undo] = []
            try:
                lease = lock._tried(undo)
                if lease is None:
                    return None
                with lease:
                    if run(task.known()) is not None:
                        return None
                    result: T = run(task.perform(lease))
                    return result
            except BaseException:  # also an interruption between taking the lock and the `with`
                undo_all(undo)
                raise

        return wrapper

    return decorate


def async_scheduled(lock: AsyncLock, period: Duration) -> AsyncSchedule:
    """The same for asyncio."""

    def decorate(job: Callable[..., Awaitable[T]]) -> AsyncJob[T]:
        if not inspect.iscoroutinefunction(job):
            raise TypeError(f"{job.__qualname__} is not async: decorate it with a Client")
        task = Once(lock, job, keep=period, results=False)

        @functools.wraps(job)
        async def wrapper() -> T | None:
            if await task.known() is not None:
                return None
            lease: AsyncLease | None = await lock.try_acquire()
            if lease is None:
                return None
            async with lease:
                if await task.known() is not None:
                    return None
                result: T = await task.perform(lease)
                return result

        return wrapper

    return decorate
