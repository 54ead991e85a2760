"""Tables and functions: created on demand, by many clients at once, or by their owner from plain SQL."""

import asyncio
import subprocess
import sys

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell
from tests.engines.postgresql.test_errors import SECRET, add_role
from tests.servers_postgresql import PostgresqlServer
from tests.waiting import PATIENCE, eventually


def printed(*options: str) -> str:
    """What `fencelock schema postgresql` prints."""
    command = [sys.executable, "-m", "fencelock", "schema", "postgresql", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


async def test_many_clients_create_it_at_once(
    server: PostgresqlServer, open_cell: OpenCell
) -> None:
    cell = open_cell(server.url)
    leases = await asyncio.gather(
        *(cell.actor().do(cell.client().lock(f"{cell.name}:{n}").acquire) for n in range(8))
    )
    assert len({lease.name for lease in leases}) == 8


@pytest.mark.parametrize("schema", ["fencelock", "locks"])
async def test_an_owner_creates_it(
    server: PostgresqlServer, open_cell: OpenCell, schema: str
) -> None:
    server.execute("DROP SCHEMA IF EXISTS locks CASCADE")
    add_role(server, "app")
    sql = printed("--schema", schema)
    granted = [line.removeprefix("--   ") for line in sql.splitlines() if "GRANT" in line]
    assert len(granted) == 2
    for statement in (sql, sql, *granted):  # to run it twice does no harm
        server.execute(statement)
    cell = open_cell(server.url_of("app", SECRET) + f"?schema={schema}")
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    server.execute(sql)
    await cell.run(lease.renew)
    await cell.run(lease.release)
    made = server.execute(
        "SELECT nspname FROM pg_namespace WHERE nspname IN ('fencelock', 'locks')"
    )
    assert made == [(schema,)]


async def test_schemas_keep_apart(server: PostgresqlServer, open_cell: OpenCell) -> None:
    one, other = open_cell(server.url), open_cell(server.url + "?schema=others")
    other.name = one.name
    for cell in (one, other):
        client = cell.client()
        assert await cell.run(client.lock(cell.name).try_acquire)
        assert await cell.run(client.lock(cell.name).try_acquire) is None


async def test_it_is_created_again_after_a_drop(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=1).acquire)
    server.execute("DROP SCHEMA fencelock CASCADE")
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert await cell.run(lambda: lease.lost.wait(PATIENCE))


async def test_a_restored_backup_with_the_clock_behind(
    cell: Cell, server: PostgresqlServer
) -> None:
    """The stored fence counts, even if the clock is behind it."""
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.release)
    ahead = lease.fence + 10**12
    server.execute("UPDATE fencelock.names SET newest = %s", ahead)
    assert (await cell.run(client.lock(cell.name).acquire)).fence == ahead + 1


def test_unused_names_are_deleted(server: PostgresqlServer) -> None:
    with fencelock.Client(server.url) as client:
        with client.lock("used"):
            server.execute(
                "INSERT INTO fencelock.names (name, newest, abandoned, id, expires) SELECT 'old:' || n, "
                "fencelock.v2_now() - n * 3600000000::bigint, n > 10, CASE WHEN n > 20 THEN 'x' END, "
                "CASE WHEN n > 20 THEN 5 END FROM generate_series(0, 30) n"
            )
            server.execute("SELECT fencelock.v2_sweep(fencelock.v2_now())")
        left = server.execute("SELECT name FROM fencelock.names")
    # Released: one hour. Abandoned: a day.
    wanted = ["used", "old:0", *(f"old:{n}" for n in range(11, 24))]
    assert {name for (name,) in left} == {*wanted}
    ((floor,),) = server.execute("SELECT floor FROM fencelock.about")
    assert floor > 0


@pytest.mark.parametrize("names", ["always another", "always the same"])
def test_clients_that_take_locks_sweep(server: PostgresqlServer, names: str) -> None:
    with fencelock.Client(server.url) as client:
        with client.lock("a"):
            server.execute("INSERT INTO fencelock.names (name, newest) VALUES ('old', 1)")
        for number in range(3000):  # one in 64 does
            with client.lock(f"a:{number}" if names == "always another" else "a"):
                pass
            if number % 32 == 0 and ("old",) not in server.execute(
                "SELECT name FROM fencelock.names"
            ):
                return
    raise AssertionError("no client has swept")


def test_the_sweep_skips_locked_rows(server: PostgresqlServer) -> None:
    with fencelock.Client(server.url) as client:
        with client.lock("a"):
            server.execute("INSERT INTO fencelock.names (name, newest) VALUES ('old', 1)")
        with server.connect() as hog, hog.transaction():
            hog.execute("SELECT 1 FROM fencelock.names WHERE name = 'old' FOR UPDATE")
            server.execute("SELECT fencelock.v2_sweep(fencelock.v2_now())")
        assert ("old",) in server.execute("SELECT name FROM fencelock.names")
        server.execute("SELECT fencelock.v2_sweep(fencelock.v2_now())")
        assert ("old",) not in server.execute("SELECT name FROM fencelock.names")


def test_tables_do_not_grow_without_end(server: PostgresqlServer) -> None:
    """Updates are made in place: no vacuum is needed for it."""

    def size() -> int:
        return int(server.execute("SELECT pg_table_size('fencelock.names')")[0][0])

    with fencelock.Client(server.url) as client:
        with client.lock("a"):
            server.execute("ALTER TABLE fencelock.names SET (autovacuum_enabled = off)")
        # A transaction anywhere that takes long (the server's own work, on a busy machine) keeps old
        # versions alive, and the table grows meanwhile: but not time after time.
        for _ in range(10):
            before = size()
            for _ in range(500):  # 1,000 versions of the row, of more than 100 bytes each
                with client.lock("a"):
                    pass
            if size() == before:
                break
        else:
            raise AssertionError(f"it grows and grows: {size()} bytes")

    def counts() -> tuple[int, int]:
        (found,) = server.execute(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
            "WHERE schemaname = 'fencelock' AND relname = 'names'"
        )
        return found

    # The server counts a session's work when the session has ended, a little later.
    eventually(lambda: counts()[0] >= 1000, "the count of updates")
    updates, in_place = counts()
    assert in_place > 0.98 * updates
