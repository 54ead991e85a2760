"""Distributed locks that are correct, not just likely."""

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
from holdfast.primitives.election import AsyncElection, Election, Leader
from holdfast.primitives.lease import AsyncLease, Lease
from holdfast.primitives.lock import AsyncLock, Lock
from holdfast.primitives.rwlock import ReadWriteLock
from holdfast.primitives.several import AsyncLeases, AsyncLockAll, Leases, LockAll
from holdfast.primitives.transaction import AsyncTransaction, Transaction

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
