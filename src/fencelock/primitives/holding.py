"""How everything that is held is released: the rules, once for all primitives.

A *holding* is a lease, several leases or a transaction. To release it asks the engine. To give it up only
leaves it to the sweeper. The rules:

- **Nothing stays behind.** What a cancellation, Ctrl-C or a failing engine cuts short is given up. So is
  the rest of several leases.
- **Loss is told**, at the end of a `with` block too.
- **The body's own error is never hidden.** A loss beside it becomes a note.
- **If the engine does not confirm the release, that is only logged** at the end of a `with` block: the body
  ran
  under a good lease to its end, and the sweeper goes on trying.

A thread can be interrupted between any two steps. So the outermost frame of a blocking call gives up what is
left: at each step some frame is responsible.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

from fencelock.core.errors import EngineError, FencelockError, LeaseLost
from fencelock.io.blocking import run
from fencelock.primitives.leaving import leave_together

if TYPE_CHECKING:
    from fencelock.primitives.canceller import Canceller
    from fencelock.primitives.context import Context
    from fencelock.primitives.lease import BaseLease

log = logging.getLogger("fencelock.lease")


class Holding(ABC):
    """Something that is held."""

    __slots__ = ()

    @property
    @abstractmethod
    def _context(self) -> Context:
        """The context in which it is held."""

    @property
    def _caller(self) -> object:
        """The thread or task that took it."""
        return None

    @abstractmethod
    async def _release(self) -> None:
        """Release it. If that fails or is interrupted, give it up."""

    @abstractmethod
    def _give_up(self) -> None:
        """Leave what is not released yet to the sweeper. Never waits. A second call does nothing."""

    def _ended(self, error: BaseException | None, failure: FencelockError) -> None:
        """Decide what a failed release at the end of a `with` body means. `error` is the body's own."""
        if isinstance(failure, EngineError):
            log.warning("could not release %r yet: %s", self, failure)
        elif error is None:
            raise failure
        elif not _says_the_same(error, failure):
            error.add_note(f"Besides, {failure}")


class BlockingHolding(Holding):
    """Something that a blocking program holds: `with holding:` releases it at the end."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self._end(error)
        except BaseException:
            self._give_up()
            raise

    def _end(self, error: BaseException | None) -> None:
        """Release at the end of a `with` body. The caller gives up what an interruption leaves."""
        try:
            run(self._release())
        except FencelockError as failure:
            self._ended(error, failure)


class AsyncHolding(Holding):
    """Something that an asyncio program holds: `async with holding:` releases it at the end."""

    __slots__ = ()

    _cancels: bool
    """Whether a loss cancels the body of an `async with`."""
    _canceller: Canceller | None

    @abstractmethod
    def _loss(self) -> LeaseLost | None:
        """The loss to tell, if there is one."""

    @abstractmethod
    def _on_loss(self, callback: Callable[[], Any]) -> None:
        """Call this when it is lost."""

    async def __aenter__(self) -> Self:
        if self._cancels:
            from fencelock.primitives.canceller import Canceller  # with asyncio, which few need

            self._canceller = Canceller()  # type: ignore[misc]  # a slot of each kind of holding
            self._on_loss(self._canceller)
            if (loss := self._loss()) is not None:  # before the block could begin
                self._canceller.caused(loss)
                raise loss
        return self

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        await self._end(error)

    async def _end(self, error: BaseException | None) -> None:
        """Release at the end of an `async with` body."""
        cancelled = self._canceller is not None and self._canceller.caused(error)
        try:
            await self._release()
        except FencelockError as failure:
            self._ended(error, failure)
        if cancelled and (loss := self._loss()) is not None:
            raise loss from error


async def release_all(leases: Sequence[BaseLease]) -> None:
    """Release several leases, the last one first, and raise the first loss. One request releases all of
    them if the engine can do that.

    If the engine does not answer for one of them, it is not asked about the others: that could take
    seconds for each. The clock says which of them are lost, and the sweeper releases the rest.
    """
    left = list(leases)
    losses: list[LeaseLost] = []
    try:
        there = await leave_together(left[::-1])
        while left:
            try:
                await left[-1]._release(there.get(left[-1]))
            except LeaseLost as error:
                losses.append(error)
            left.pop()
    except EngineError:
        losses += [loss for lease in reversed(left) if (loss := lease._loss()) is not None]
        if not losses:
            raise
    finally:
        for lease in left:
            lease._give_up()
    if losses:
        for other in losses[1:]:
            losses[0].add_note(f"Besides, {other}")
        raise losses[0]


def _says_the_same(error: BaseException, failure: FencelockError) -> bool:
    """Whether the body itself has ended with this very loss."""
    return isinstance(error, LeaseLost) and error.name == failure.name
