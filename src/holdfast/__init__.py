"""Distributed locks that are correct, not just likely."""

from typing import TYPE_CHECKING

from holdfast.client import AsyncClient, Client
from holdfast.core.durations import suggest_ttl
from holdfast.core.errors import (
    DeadlockVictim,
    EngineError,
    HoldfastError,
    LeaseLost,
    LockTimeout,
    QuorumLost,
    RanBefore,
    StaleFence,
    UnsafeEngine,
    Unsupported,
    WouldDeadlock,
)
from holdfast.core.lease import LeaseState
from holdfast.core.ticket import Contender, Inspection, Owner
from holdfast.engines.contract import Traits
from holdfast.primitives.lease import AsyncLease, Lease
from holdfast.primitives.lock import AsyncLock, Lock
from holdfast.primitives.rwlock import ReadWriteLock

if TYPE_CHECKING:
    from holdfast.primitives.election import AsyncElection, Election, Leader
    from holdfast.primitives.several import AsyncLeases, AsyncLockAll, Leases, LockAll
    from holdfast.primitives.transaction import AsyncTransaction, Transaction
else:
    # These are for annotations and isinstance(): a client imports what it makes when it makes one.
    _LATER = {
        **dict.fromkeys(("AsyncElection", "Election", "Leader"), "election"),
        **dict.fromkeys(("AsyncLeases", "AsyncLockAll", "Leases", "LockAll"), "several"),
        **dict.fromkeys(("AsyncTransaction", "Transaction"), "transaction"),
    }

    def __getattr__(name):
        from importlib import import_module

        if name not in _LATER:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        globals()[name] = getattr(import_module(f"holdfast.primitives.{_LATER[name]}"), name)
        return globals()[name]


__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncElection",
    "AsyncLease",
    "AsyncLeases",
    "AsyncLock",
    "AsyncLockAll",
    "AsyncTransaction",
    "Client",
    "Contender",
    "DeadlockVictim",
    "Election",
    "EngineError",
    "HoldfastError",
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
    "ReadWriteLock",
    "StaleFence",
    "Traits",
    "Transaction",
    "UnsafeEngine",
    "Unsupported",
    "WouldDeadlock",
    "suggest_ttl",
]
