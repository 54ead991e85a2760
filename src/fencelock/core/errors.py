"""Every error Fencelock raises, in one tree.

    FencelockError
    ├─ LockTimeout (also TimeoutError)   waited, did not get it
    ├─ LeaseLost                         was held, can't be trusted any more
    ├─ StaleFence                        a guard refused a holder that was overtaken
    ├─ WouldDeadlock                     the same caller asked twice
    ├─ DeadlockVictim                    a transaction that has to give way and be tried again
    ├─ RanBefore                         run once, it failed, and that was kept
    ├─ Unsupported                       this engine or set-up can't do that
    ├─ UnsafeEngine                      a correctness lock was asked of an engine that can't give it
    └─ EngineError                       the engine failed, and whether the request was applied
       └─ QuorumLost                     too few of its servers are in reach for a majority

"Held by someone else" and "the engine is down" never look alike. Arguments that can never be
right (an empty name, a negative ttl) are a plain `ValueError` or `TypeError`, as everywhere in Python.
"""

from __future__ import annotations

from typing import Any, Literal

from fencelock.core.ticket import Holder

Outcome = Literal["not applied", "unknown"]


class FencelockError(Exception):
    """Anything that Fencelock itself raises; `name` is the lock it is about, if there is one."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes, and by default pickle would call the class with the
        # message alone, which fails for some: a multiprocessing.Pool then hangs for ever.
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[FencelockError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


class LockTimeout(FencelockError, TimeoutError):
    """The lock is held by someone else and the caller was not willing to wait any longer.

    `holder` is who held it then, if the engine could still tell.
    """

    def __init__(self, message: str, *, name: str, holder: Holder | None = None) -> None:
        super().__init__(message, name=name)
        self.holder = holder


class LeaseLost(FencelockError):
    """The lease was held but can't be trusted any more; `reason` says why."""

    def __init__(self, message: str, *, name: str, reason: str) -> None:
        super().__init__(message, name=name)
        self.reason = reason


class StaleFence(FencelockError):
    """A guard refused what a holder wrote: a newer one was there before. Nothing was changed."""

    def __init__(self, name: str, *, given: int, newest: int) -> None:
        super().__init__(
            f"{name!r}: fence {given} was refused, as the storage has seen {newest}: another holder has "
            "taken over, so stop and don't try again with this lease",
            name=name,
        )
        self.given = given
        self.newest = newest


class WouldDeadlock(FencelockError):
    """The caller already holds this lock, so waiting for it would never end."""


class DeadlockVictim(FencelockError):
    """A transaction has to give up what it holds, because others wait for that; `run()` tries it again.

    `cycle` is who waits for whom, if that is known; `transaction` the id of the one that gives way.
    """

    def __init__(
        self, message: str, *, name: str, transaction: str, cycle: tuple[Any, ...] = ()
    ) -> None:
        super().__init__(message, name=name)
        self.transaction = transaction
        self.cycle = cycle


class RanBefore(FencelockError):
    """What was to run once has run before and failed, and its failure was kept; this is a later caller."""


class Unsupported(FencelockError):
    """The engine, the URL or this machine can't do what was asked.

    `longest_ttl` is the longest ttl that the engine can keep, if one was asked for that is longer.
    """

    def __init__(
        self, message: str, *, name: str | None = None, longest_ttl: float | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.longest_ttl = longest_ttl


class UnsafeEngine(FencelockError):
    """A correctness lock was asked of an engine that can only promise an efficiency lock."""


class EngineError(FencelockError):
    """The engine could not be reached or refused; `outcome` says whether it may have acted."""

    def __init__(self, message: str, *, outcome: Outcome, name: str | None = None) -> None:
        super().__init__(message, name=name)
        self.outcome: Outcome = outcome


class QuorumLost(EngineError):
    """Too few of an engine's servers can be reached for a majority."""
