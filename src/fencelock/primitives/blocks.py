"""The `with` blocks of locks, of several locks and of elections.

What a block takes on the way in is undone if the caller can't have it. What an open block holds is released
on every way out, and given up if the block can't be left any more.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from fencelock.core.durations import Duration
from fencelock.primitives.claim import WITHDRAWN, Claim
from fencelock.primitives.contexts import Contexts
from fencelock.primitives.holding import AsyncHolding, BlockingHolding, Holding

Undo = Claim | Callable[[], None]
"""A claim to give up, or a function that undoes something else."""

H = TypeVar("H", bound=Holding)
BlockingH = TypeVar("BlockingH", bound=BlockingHolding)
AsyncH = TypeVar("AsyncH", bound=AsyncHolding)


class _Default:
    """Stands for "as given to lock()": None already means "wait for ever"."""

    def __repr__(self) -> str:
        return "<as given to lock()>"


DEFAULT = _Default()


class Blocks(Generic[H]):
    """The open blocks of one object, of all callers that share it."""

    _contexts: Contexts
    _open: list[H] = ()  # type: ignore[assignment]  # for __del__, if the constructor failed

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts
        self._open = []

    def _innermost(self) -> H:
        """What the block that ends now holds."""
        # Two tasks that share one lock object must not end each other's lease.
        caller = self._contexts.here().io.caller()
        every = list(self._open)
        for held in reversed(every):
            if held._caller == caller:
                return held
        if not every:
            raise RuntimeError(f"the with block of {self!r} was left but never entered")
        # It was entered in another thread or task. Of several, only the newest can be good.
        return every[-1]

    def __del__(self) -> None:
        # A block was entered and can't be left any more: it was interrupted when it was about to call
        # `__exit__`. This may run anywhere, so it must not take a mutex.
        for held in self._open:
            held._context.soon(held._give_up)


class BlockingBlocks(Blocks[BlockingH]):
    """`with` blocks."""

    @abstractmethod
    def _acquired(
        self, undo: list[Undo], timeout: Duration | _Default | None = DEFAULT
    ) -> BlockingH:
        """Wait, and hold it. Adds to `undo` what undoes each step."""

    def _acquire(self, timeout: Duration | _Default | None = DEFAULT) -> BlockingH:
        undo: list[Undo] = []
        try:
            return self._acquired(undo, timeout)
        except BaseException:
            undo_all(undo)
            raise

    def __enter__(self) -> BlockingH:
        undo: list[Undo] = []
        held: BlockingH | None = None
        try:
            held = self._acquired(undo)
            self._open.append(held)
            return held
        except BaseException:
            if held in self._open:
                self._open.remove(held)
            undo_all(undo)
            raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        held: BlockingH | None = None
        try:
            held = self._open[0] if len(self._open) == 1 else self._innermost()
            held._end(error)
        except BaseException:
            if held is None:
                held = self._innermost()
            held._give_up()
            raise
        finally:
            if held in self._open:
                self._open.remove(held)


class AsyncBlocks(Blocks[AsyncH]):
    """`async with` blocks."""

    @abstractmethod
    async def _acquire(self, timeout: Duration | _Default | None = DEFAULT) -> AsyncH:
        """Wait, and hold it. If that fails, nothing stays behind."""

    async def __aenter__(self) -> AsyncH:
        held = await self._acquire()
        if held._cancels:
            try:
                await held.__aenter__()
            except BaseException:
                held._give_up()
                raise
        self._open.append(held)
        return held

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        held = self._open[0] if len(self._open) == 1 else self._innermost()
        try:
            await held._end(error)
        finally:
            if held in self._open:
                self._open.remove(held)


def undo_all(undo: list[Undo]) -> None:
    """Undo what was done, the last step first."""
    while undo:
        last = undo.pop()
        if isinstance(last, Claim):
            last.context.give_up(last, WITHDRAWN)
        else:
            last()
