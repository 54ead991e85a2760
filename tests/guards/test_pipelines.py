"""psycopg's pipelines: what a statement came to is not known before it is asked for."""

from __future__ import annotations

import psycopg
import pytest

from fencelock import StaleFence
from tests.guards.databases import AsyncPsycopgDatabase, PsycopgDatabase
from tests.guards.lease_likes import FIRST, LeaseLike


async def test_in_a_pipeline(postgresql_url: str) -> None:
    database = PsycopgDatabase(postgresql_url)
    await database.set_up()

    def write(stamp: LeaseLike) -> None:
        with psycopg.connect(postgresql_url) as connection, connection.pipeline():
            database.guard.check(connection, stamp)
            database.columns.update(connection, stamp, 1, balance=stamp.fence)

    for stamp in (FIRST, FIRST, FIRST.newer()):
        write(stamp)
    for stale in (FIRST, FIRST.newer().rival()):
        with pytest.raises(StaleFence) as caught:
            write(stale)
        assert caught.value.newest == FIRST.fence + 1
    assert await database.balance() == FIRST.fence + 1
    await database.close()


async def test_in_an_async_pipeline(postgresql_url: str) -> None:
    database = AsyncPsycopgDatabase(postgresql_url)
    await database.set_up()

    async def write(stamp: LeaseLike) -> None:
        connect = psycopg.AsyncConnection.connect
        async with await connect(postgresql_url) as connection, connection.pipeline():
            await database.guard.check(connection, stamp)
            await database.columns.update(connection, stamp, 1, balance=stamp.fence)

    for stamp in (FIRST, FIRST, FIRST.newer()):
        await write(stamp)
    with pytest.raises(StaleFence):
        await write(FIRST)
    assert await database.balance() == FIRST.fence + 1
    await database.close()
