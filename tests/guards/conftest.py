"""The `desk` fixture: one kind of connection, with a guard and a table to guard."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.guards.desks import DESKS, Desk


@pytest.fixture(params=DESKS)
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    kind = DESKS[request.param]
    if kind.dialect == "sqlite":
        desk = kind(str(tmp_path / "accounts.db"))
    else:
        desk = kind(request.getfixturevalue(f"{kind.dialect}_url"))
    try:
        await desk.set_up()
        yield desk
    finally:
        await desk.close()
