"""SQLAlchemy: every transaction of a session is fenced, without a line in each of them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from fencelock.guards import SqlGuard
from fencelock.guards.lease_like import LeaseLike


def fence_session(session: Session | AsyncSession, guard: SqlGuard, lease: LeaseLike) -> None:
    """Let the guard check the lease first in every transaction that this session begins from now on.

    `StaleFence` then comes out of the statement that begins the transaction. An `AsyncSession` needs a
    `SqlGuard`, too: SQLAlchemy's events are blocking functions in both.
    """
    if not isinstance(session, Session | AsyncSession):
        raise TypeError(
            "a Session or an AsyncSession is needed, for one lease: a factory or a registry makes sessions "
            f"that outlive it, and so does {type(session).__qualname__}"
        )
    if not isinstance(guard, SqlGuard):
        raise TypeError(
            "SQLAlchemy's events are blocking: use a SqlGuard, also for an AsyncSession"
        )
    if session.in_transaction():
        raise ValueError(
            "this session is in a transaction already, which would not be fenced: call fence_session before "
            "its first statement"
        )

    def check(_session: Any, _transaction: Any, connection: Any) -> None:
        guard.check(connection, lease)

    event.listen(getattr(session, "sync_session", session), "after_begin", check)
