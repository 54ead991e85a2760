"""Run once: the first caller does the work under a lock, and what comes of it is kept for all others."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fencelock.core.durations import check_keep
from fencelock.core.errors import FencelockError, LeaseLost, RanBefore, Unsupported
from fencelock.io.blocking import run
from fencelock.primitives.blocks import Undo, undo_all
from fencelock.primitives.lease import AsyncLease, BaseLease
from fencelock.primitives.lock import AsyncLock, BaseLock, Lock
from fencelock.primitives.sweeper import REQUEST_TIMEOUT

T = TypeVar("T")

NO_NOTES = (
    "this engine can't note down what came of a run. Use sqlite://, redis://, etcd://, zookeeper://, "
    "postgresql:// or mysql://"
)


class Once:
    """One piece of work that is to be done once, and where its outcome is noted down."""

    def __init__(
        self,
        lock: BaseLock[Any],
        work: Callable[..., Any],
        *,
        keep: float,
        results: bool = True,
        errors: bool = False,
    ) -> None:
        if not lock._contexts.traits.supports_notes:
            raise Unsupported(NO_NOTES, name=lock.name)
        if not callable(work):
            raise TypeError(f"what is to run once must be a function, not {work!r}")
        self._lock = lock
        self._work = work
        self._wants_lease = "lease" in inspect.signature(work).parameters
        self._keep = check_keep("keep" if results else "at_most_every", keep)
        self._results = results
        self._errors = errors

    async def known(self) -> str | None:
        """What was noted down, if it was done before."""
        engine = self._lock._contexts.here().engine
        return await engine.recall(self._lock.name, timeout=REQUEST_TIMEOUT)

    async def perform(self, lease: BaseLease) -> Any:
        """Do it, and note down what came of it. The time for which that is kept counts from now."""
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
            # It was done all the same, and must not be done again.
            await self._note({"unfit": type(result).__name__}, lease, began)
            raise _unfit(self._lock.name, type(result).__name__) from error
        return result

    async def _note_failure(self, error: Exception, lease: BaseLease, began: float) -> None:
        kind = type(error).__name__
        try:
            await self._note({"error": f"{kind}: {error}" if str(error) else kind}, lease, began)
        except FencelockError as failure:  # the work's own error says more
            error.add_note(f"Besides, that could not be noted down: {failure}")

    async def done(self, lease: BaseLease, began: float) -> None:
        """Note down that it was done, by somebody else than `perform`."""
        await self._note({"result": None}, lease, began)

    async def _note(self, outcome: dict[str, Any], lease: BaseLease, began: float) -> None:
        text = json.dumps(outcome)
        # Not less than nothing: the work may have taken longer than it is to be remembered.
        context = lease._context
        keep = max(0.001, self._keep - (context.io.now() - began))
        ticket = lease._claim.ticket
        lease.check()
        if not await context.engine.remember(ticket, text, keep=keep, timeout=REQUEST_TIMEOUT):
            raise LeaseLost(
                f"{lease.name!r} was done, but the lease was lost before that could be noted down: it "
                "may be done again. Let your storage check the fence",
                name=lease.name,
                reason="its outcome could not be noted down",
            )

    def outcome(self, text: str) -> Any:
        """The result that was noted down; raises if it was an error."""
        noted = json.loads(text)
        if "error" in noted:
            raise RanBefore(
                f"{self._lock.name!r} ran before and failed: {noted['error']}", name=self._lock.name
            )
        if "unfit" in noted:
            raise _unfit(self._lock.name, noted["unfit"])
        return noted["result"]


def _unfit(name: str, kind: str) -> TypeError:
    return TypeError(
        f"{name!r} was done, but its result, a {kind}, can't be kept: return what JSON can hold"
    )


def once(lock: Lock, work: Once) -> Any:
    """Do it, or have what came of it when it was done before. Waits for one who is doing it."""
    known = run(work.known())
    if known is None:
        with lock as lease:
            known = run(work.known())  # somebody may have done it in the meantime
            if known is None:
                return run(work.perform(lease))
    return work.outcome(known)


async def async_once(lock: AsyncLock, work: Once) -> Any:
    """The same for asyncio."""
    known = await work.known()
    if known is None:
        async with lock as lease:
            known = await work.known()
            if known is None:
                return await work.perform(lease)
    return work.outcome(known)


def scheduled(make: Callable[[Callable[..., Any]], tuple[Lock, Once]]) -> Any:
    """Decorate a function so that it runs once per period, however many call it."""

    def decorate(function: Callable[[], T]) -> Callable[[], T | None]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is async: decorate it with an AsyncClient")
        lock, work = make(function)

        @functools.wraps(function)
        def wrapper() -> T | None:
            if run(work.known()) is not None:
                return None
            undo: list[Undo] = []
            try:
                lease = lock._tried(undo)
                if lease is None:
                    return None
                with lease:
                    if run(work.known()) is not None:
                        return None
                    result: T = run(work.perform(lease))
                    return result
            except BaseException:  # also an interruption between taking the lock and the `with`
                undo_all(undo)
                raise

        return wrapper

    return decorate


def async_scheduled(make: Callable[[Callable[..., Any]], tuple[AsyncLock, Once]]) -> Any:
    """The same for asyncio."""

    def decorate(function: Callable[[], Awaitable[T]]) -> Callable[[], Awaitable[T | None]]:
        if not inspect.iscoroutinefunction(function):
            raise TypeError(f"{function.__qualname__} is not async: decorate it with a Client")
        lock, work = make(function)

        @functools.wraps(function)
        async def wrapper() -> T | None:
            if await work.known() is not None:
                return None
            lease: AsyncLease | None = await lock.try_acquire()
            if lease is None:
                return None
            async with lease:
                if await work.known() is not None:
                    return None
                result: T = await work.perform(lease)
                return result

        return wrapper

    return decorate
