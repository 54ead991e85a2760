"""Every error that Fencelock raises, in one tree.

    FencelockError
    ├─ LockTimeout (also TimeoutError)   the caller waited and did not get the lock
    ├─ LeaseLost                         the lease was held and can't be trusted any more
    ├─ StaleFence                        a guard refused a holder because a newer one has come
    ├─ WouldDeadlock                     the caller holds this lock already
    ├─ DeadlockVictim                    a transaction must give way and be tried again
    ├─ RanBefore                         the function has run once before and failed
    ├─ Unsupported                       this engine or set-up can't do that
    ├─ UnsafeEngine                      the engine, or its set-up, gives less than was asked
    └─ EngineError                       the engine failed; `outcome`: may it have acted?
       └─ QuorumLost                     too few of the engine's servers answer

"Another caller holds the lock" and "the engine is down" are always different classes. Arguments that can
never be right (an empty name, a negative ttl) raise a plain `ValueError` or `TypeError`.
"""

from __future__ import annotations

from typing import Any, Literal

from fencelock.core.ticket import Holder

Outcome = Literal["not applied", "unknown"]
"""Whether an engine acted on a failed request: certainly not, or perhaps."""


class FencelockError(Exception):
    """The base of all errors that Fencelock raises. `name` is the lock's name, if there is one.

    `type(error)(*error.args)` makes an error with the same message. Task queues send errors like that.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes. By default, pickle calls the class with the message alone.
        # That fails for classes that need more, and a multiprocessing.Pool then hangs for ever.
        return _restored, (type(self), self.args, vars(self))


def _restored(kind: type[FencelockError], args: tuple[Any, ...], state: dict[str, Any]) -> Any:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


class LockTimeout(FencelockError, TimeoutError):
    """Another caller holds the lock, and the timeout is over.

    `holder` describes the holder, if the engine could still tell.
    """

    def __init__(
        self, message: str, *, name: str | None = None, holder: Holder | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.holder = holder


class LeaseLost(FencelockError):
    """The lease was held and can't be trusted any more. `reason` says why."""

    def __init__(self, message: str, *, name: str | None = None, reason: str = "") -> None:
        super().__init__(message, name=name)
        self.reason = reason


class StaleFence(FencelockError):
    """A guard refused a write, because a newer holder has used the storage. Nothing was changed."""

    def __init__(self, name: str, given: int, newest: int) -> None:
        super().__init__(name, name=name)
        self.args = name, given, newest
        self.given = given
        self.newest = newest

    def __str__(self) -> str:
        return (
            f"{self.name!r}: fence {self.given} was refused, as the storage has seen {self.newest}: another "
            "holder has taken over, so stop and don't try again with this lease"
        )


class WouldDeadlock(FencelockError):
    """The caller already holds this lock, so waiting for it would never end."""


class DeadlockVictim(FencelockError):
    """A transaction must give up its locks, because others wait for them. `run()` tries it again.

    `cycle` says which transaction waits for which, if that is known. `transaction` is the id of the
    transaction that gives way.
    """

    def __init__(
        self,
        message: str,
        *,
        name: str | None = None,
        transaction: str = "",
        cycle: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(message, name=name)
        self.transaction = transaction
        self.cycle = cycle


class RanBefore(FencelockError):
    """A function that must run once has run before and failed. A later caller gets this error."""


class Unsupported(FencelockError):
    """The engine, the URL or this machine can't do what was asked.

    If the caller asked for a longer ttl than the engine can keep, `longest_ttl` is the longest possible.
    """

    def __init__(
        self, message: str, *, name: str | None = None, longest_ttl: float | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.longest_ttl = longest_ttl


class UnsafeEngine(FencelockError):
    """The engine can promise less than was asked, or `diagnose=True` found that its set-up gives less."""


class EngineError(FencelockError):
    """The engine could not be reached, or it refused. `outcome` says whether it may have acted."""

    def __init__(
        self, message: str, *, outcome: Outcome = "unknown", name: str | None = None
    ) -> None:
        super().__init__(message, name=name)
        self.outcome: Outcome = outcome


class QuorumLost(EngineError):
    """Too few of the engine's servers can be reached for a majority."""
