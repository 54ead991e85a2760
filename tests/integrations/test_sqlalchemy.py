"""Sessions of SQLAlchemy, sync and async, on each database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.orm import sessionmaker

from fencelock import StaleFence
from fencelock.guards import AsyncSqlGuard, SqlGuard
from fencelock.integrations.sqlalchemy import fence_session
from tests.guards.databases import DATABASES, SessionDatabase, settled
from tests.guards.lease_likes import FIRST

SESSIONS = {name: kind for name, kind in DATABASES.items() if issubclass(kind, SessionDatabase)}


@pytest.fixture(params=SESSIONS)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    kind = SESSIONS[request.param]
    where = str(tmp_path / "accounts.db")
    if kind.dialect != "sqlite":
        where = request.getfixturevalue(f"{kind.dialect}_url")
    database = kind(where)
    try:
        await database.set_up()
        yield database
    finally:
        await database.close()


async def test_every_transaction_of_a_session_is_fenced(database: Any) -> None:
    guard = SqlGuard(database.guard.table)
    old, new = await database.open(), await database.open()
    fence_session(old, guard, FIRST)
    for _ in range(2):
        await database.pay_in(old, 10)
        await database.commit(old)
    fence_session(new, guard, FIRST.newer())
    async with _savepoint(new):
        await database.pay_in(new, 1)
    await database.commit(new)
    for _ in range(2):
        with pytest.raises(StaleFence):
            await database.pay_in(old, 10)
        await database.rollback(old)
    assert await database.balance() == 121
    assert await database.newest(FIRST.name) == FIRST.newer().fence


class _savepoint:
    """`begin_nested` of a session, blocking or not."""

    def __init__(self, session: Any) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        self._nested = await settled(self._session.begin_nested())

    async def __aexit__(self, *_: object) -> None:
        await settled(self._nested.commit())


async def test_what_would_not_be_fenced_is_refused(tmp_path: Path) -> None:
    database = SESSIONS["sqlalchemy-session-sqlite"](str(tmp_path / "accounts.db"))
    await database.set_up()
    session = await database.open()
    await database.balance(session)
    with pytest.raises(ValueError, match="before its first statement"):
        fence_session(session, SqlGuard(), FIRST)
    await database.rollback(session)
    with pytest.raises(TypeError, match="use a SqlGuard"):
        fence_session(session, AsyncSqlGuard(), FIRST)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="outlive"):
        fence_session(sessionmaker(), SqlGuard(), FIRST)  # type: ignore[arg-type]
    await database.close()
