"""Behind PgBouncer: in transaction mode LISTEN does not work, so clients poll, and log a warning."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.postgresql.server_state import listening
from tests.engines.postgresql.test_faults import take_turns
from tests.servers import Setting
from tests.servers_postgresql import PgBouncer, PostgresqlServer
from tests.waiting import soon, within

# To find out that LISTEN does not work takes half of a request's time.
pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def bouncer(server: PostgresqlServer, tmp_path: Path) -> Iterator[Callable[..., PgBouncer]]:
    with ExitStack() as running:

        def start(**settings: Setting) -> PgBouncer:
            return running.enter_context(PgBouncer(tmp_path / "pgbouncer", server, **settings))

        yield start


@pytest.mark.parametrize("ignore", ["", "options"])
async def test_in_transaction_mode(
    bouncer: Callable[..., PgBouncer],
    open_cell: OpenCell,
    server: PostgresqlServer,
    ignore: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "fencelock")
    pooler = bouncer(ignore_startup_parameters=f"extra_float_digits,{ignore}")
    cell = open_cell(pooler.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=60).acquire)
    assert await cell.run(client.lock(cell.name).try_acquire) is None

    async def take_turn() -> None:
        actor = cell.actor()
        await actor.do((await actor.do(client.lock(cell.name, ttl=60).acquire)).release)

    turns = [asyncio.create_task(take_turn()) for _ in range(3)]
    await queued(cell, client, 3)
    await soon(lambda: "pooler in transaction mode" in caplog.text, "the warning")
    await cell.run(lease.release)
    # Renewals are 20 s apart: it is the poll that brings the news.
    await asyncio.wait_for(asyncio.gather(*turns), 15)
    assert caplog.text.count("pooler in transaction mode") == 1
    await take_turns(cell, 4)
    assert server.execute("SELECT count(*) FROM pg_prepared_statements") == [(0,)]


async def test_in_session_mode(
    bouncer: Callable[..., PgBouncer], open_cell: OpenCell, server: PostgresqlServer
) -> None:
    cell = open_cell(bouncer(pool_mode="session", default_pool_size=20).url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=60).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await queued(cell, client, 1)
    seen = server.execute("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    assert seen == [(1,)]
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


async def test_the_server_itself_is_listened_to(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    await soon(lambda: listening(server), "the listener")
    await cell.run(lambda: client.break_lock(cell.name))
    assert (await within(waiter)).abandoned


async def test_session_locks_are_refused(
    server: PostgresqlServer, open_cell: OpenCell, tmp_path: Path
) -> None:
    with PgBouncer(tmp_path / "pgbouncer", server) as pooler:
        cell = open_cell(pooler.url.replace("postgresql://", "postgresql+advisory://"))
        client = cell.client()
        with pytest.raises(fencelock.Unsupported, match="session locks need a session"):
            await cell.run(client.lock(cell.name).acquire)
