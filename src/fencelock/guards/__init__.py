"""The storage side of fencing: what a holder writes after it was overtaken is refused.

A lock can't stop a process that was paused between looking at its lease and writing. The storage can: it
remembers the newest fence it has seen, and refuses what comes with an older one. docs/fencing.md tells how.
"""

from fencelock.guards.columns import AsyncColumnGuard, ColumnGuard
from fencelock.guards.files import AsyncFencedFile, FencedFile
from fencelock.guards.redis import AsyncRedisGuard, RedisGuard
from fencelock.guards.rows import AsyncSqlGuard, SqlGuard

__all__ = [
    "AsyncColumnGuard",
    "AsyncFencedFile",
    "AsyncRedisGuard",
    "AsyncSqlGuard",
    "ColumnGuard",
    "FencedFile",
    "RedisGuard",
    "SqlGuard",
]
