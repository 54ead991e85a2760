"""Distributed locks that are correct, not just likely."""

import sys

# This file must make sense to every Python, however old, so that it can say what is missing.
if sys.version_info < (3, 11):  # noqa: UP036 - a checkout has no installer that refuses it
    raise ImportError(
        "Fencelock needs Python 3.11 or newer, and this is Python " + sys.version.split()[0]
    )
if sys.platform == "win32":
    raise ImportError(
        "Fencelock does not work on Windows: it needs a Unix such as Linux, also the one in WSL 2"
    )

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
    from fencelock.primitives.unguarded import UnguardedLock
else:
    # For annotations and isinstance(). A client imports these when it makes the first one.
    _LATER = {
        "election": ("AsyncElection", "Election", "Leader"),
        "rate": ("AsyncRate", "Rate", "Turn"),
        "term": ("AsyncTerm", "Term"),
        "several": ("AsyncLeases", "AsyncLockAll", "Leases", "LockAll"),
        "transaction": ("AsyncTransaction", "Transaction"),
        "unguarded": ("UnguardedLock",),
    }

    def __getattr__(name):
        from importlib import import_module

        for module, names in _LATER.items():
            if name in names:
                globals()[name] = getattr(import_module("fencelock.primitives." + module), name)
                return globals()[name]
        raise AttributeError("module 'fencelock' has no attribute " + repr(name))


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
    "UnguardedLock",
    "UnsafeEngine",
    "Unsupported",
    "Waiter",
    "WouldDeadlock",
    "suggest_ttl",
]
