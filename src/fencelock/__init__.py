"""Distributed locks that are correct, not just likely."""

from typing import TYPE_CHECKING

from fencelock import observe as observe
from fencelock.client import AsyncClient, Client
from fencelock.core.durations import suggest_ttl
from fencelock.core.errors import (
    DeadlockVictim,
    EngineError,
    FencelockError,
    LeaseLost,
    LockTimeout,
    QuorumLost,
    RanBefore,
    StaleFence,
    UnsafeEngine,
    Unsupported,
    WouldDeadlock,
)
from fencelock.core.lease import LeaseState
from fencelock.core.ticket import Holder, Inspection, Owner, Waiter
from fencelock.core.version import __version__ as __version__
from fencelock.engines.contract import Traits
from fencelock.primitives.lease import AsyncLease, Lease
from fencelock.primitives.lock import AsyncLock, Lock
from fencelock.primitives.rwlock import ReadWriteLock

if TYPE_CHECKING:
    from fencelock.primitives.election import AsyncElection, Election, Leader
    from fencelock.primitives.rate import AsyncRate, Rate, Turn
    from fencelock.primitives.several import AsyncLeases, AsyncLockAll, Leases, LockAll
    from fencelock.primitives.term import AsyncTerm, Term
    from fencelock.primitives.transaction import AsyncTransaction, Transaction
else:
    # For annotations and isinstance(). A client imports these when it makes the first one.
    _LATER = {
        **dict.fromkeys(("AsyncElection", "Election", "Leader"), "election"),
        **dict.fromkeys(("AsyncRate", "Rate", "Turn"), "rate"),
        **dict.fromkeys(("AsyncTerm", "Term"), "term"),
        **dict.fromkeys(("AsyncLeases", "AsyncLockAll", "Leases", "LockAll"), "several"),
        **dict.fromkeys(("AsyncTransaction", "Transaction"), "transaction"),
    }

    def __getattr__(name):
        from importlib import import_module

        if name not in _LATER:
            raise AttributeError(f"module 'fencelock' has no attribute {name!r}")
        globals()[name] = getattr(import_module(f"fencelock.primitives.{_LATER[name]}"), name)
        return globals()[name]


__all__ = [
    "AsyncClient",
    "AsyncElection",
    "AsyncLease",
    "AsyncLeases",
    "AsyncLock",
    "AsyncLockAll",
    "AsyncRate",
    "AsyncTerm",
    "AsyncTransaction",
    "Client",
    "DeadlockVictim",
    "Election",
    "EngineError",
    "FencelockError",
    "Holder",
    "Inspection",
    "Leader",
    "Lease",
    "LeaseLost",
    "LeaseState",
    "Leases",
    "Lock",
    "LockAll",
    "LockTimeout",
    "Owner",
    "QuorumLost",
    "RanBefore",
    "Rate",
    "ReadWriteLock",
    "StaleFence",
    "Term",
    "Traits",
    "Transaction",
    "Turn",
    "UnsafeEngine",
    "Unsupported",
    "Waiter",
    "WouldDeadlock",
    "suggest_ttl",
]
