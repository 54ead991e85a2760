"""A lagging standby is promoted: leases are forgotten, a fence may come twice, guards still work."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell
from tests.servers_postgresql import PostgresqlServer, Standby
from tests.waiting import soon

pytestmark = pytest.mark.slow

GUARD = """
    INSERT INTO fences VALUES (?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET fence = excluded.fence, holder = excluded.holder
    WHERE fences.fence < excluded.fence
       OR (fences.fence = excluded.fence AND fences.holder = excluded.holder)
    RETURNING fence"""
"""The guard of the README."""


@pytest.fixture
def standby(own_server: PostgresqlServer, tmp_path: Path) -> Iterator[Standby]:
    with Standby(tmp_path / "standby", own_server) as standby:
        yield standby


def both(primary: PostgresqlServer, standby: Standby) -> str:
    """A URL that names both, the standby first."""
    credentials = f"{primary.user}:{primary.password}"
    return f"postgresql://{credentials}@{standby.address},{primary.address}/postgres"


async def test_a_standby_alone_is_refused(standby: Standby, open_cell: OpenCell) -> None:
    cell = open_cell(standby.url)
    client = cell.client()
    with pytest.raises(fencelock.EngineError, match="is a standby"):
        await cell.run(client.lock(cell.name).acquire)


async def test_a_lagging_standby_is_promoted(
    own_server: PostgresqlServer, standby: Standby, open_cell: OpenCell
) -> None:
    cell = open_cell(both(own_server, standby))
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=30).acquire)  # finds the primary
    await cell.run(lease.release)
    # As if the clock had been set back: else it would keep the fences of the two apart.
    own_server.execute("UPDATE fencelock.names SET newest = newest + 1000000000000")
    standby.wait_for_sync()
    standby.cut_off()
    old = await cell.run(client.lock(cell.name, ttl=30).acquire)
    own_server.kill()
    standby.promote()
    new = await soon(lambda: taken(cell, client), "the new primary")
    assert new.fence == old.fence, "the standby had not heard of it"
    assert new.id != old.id

    storage = sqlite3.connect(":memory:")
    storage.execute("CREATE TABLE fences (name TEXT PRIMARY KEY, fence BIGINT, holder TEXT)")

    def may_write(lease: Any) -> bool:
        return bool(storage.execute(GUARD, (lease.name, lease.fence, lease.id)).fetchall())

    assert may_write(new)
    assert not may_write(old)
    assert may_write(new)
    storage.close()
    with pytest.raises(fencelock.LeaseLost):
        await cell.run(old.renew)
    await cell.run(new.release)
    assert (await cell.run(client.lock(cell.name).acquire)).fence > new.fence


async def taken(cell: Cell, client: Any) -> Any:
    try:
        return await cell.run(client.lock(cell.name, ttl=30).try_acquire)
    except fencelock.EngineError:
        return None
