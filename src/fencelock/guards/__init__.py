"""The storage side of fencing: the storage refuses what a stale holder writes.

A lock can't stop a process that was paused between its last look at the lease and its write. The storage can:
it remembers the newest fence that it has seen, and refuses writes with an older one. See docs/fencing.md.
"""

from fencelock.guards.columns import AsyncColumnGuard, ColumnGuard
from fencelock.guards.files import AsyncFencedFile, FencedFile
from fencelock.guards.gate import AsyncGate, Gate
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from fencelock.guards.rows import AsyncSqlGuard, SqlGuard

__all__ = [
    "AsyncColumnGuard",
    "AsyncFencedFile",
    "AsyncGate",
    "AsyncRedisGuard",
    "AsyncSqlGuard",
    "ColumnGuard",
    "FencedFile",
    "Gate",
    "RedisGuard",
    "SqlGuard",
]
