"""The `database` fixture: one kind of connection, with a guard and a table to guard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.guards.databases import DATABASES, Database


@pytest.fixture(params=DATABASES)
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    kind = DATABASES[request.param]
    if kind.dialect == "sqlite":
        database = kind(str(tmp_path / "accounts.db"))
    else:
        database = kind(request.getfixturevalue(f"{kind.dialect}_url"))
    try:
        await database.set_up()
        yield database
    finally:
        await database.close()
