"""Tables and procedures: created on demand, by many clients at once, or by their owner from plain SQL."""

import asyncio
import subprocess
import sys

import pytest

import fencelock
from tests.conformance.cells import Cell, OpenCell
from tests.engines.mysql.server_state import asleep, run_script
from tests.engines.mysql.test_errors import SECRET, add_user
from tests.servers_mysql import DATABASE, MysqlServer
from tests.waiting import PATIENCE, within

TABLES = ("names", "tickets", "notes", "about", "counters", "sessions")
NOW = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"


def printed(*options: str) -> str:
    """What `fencelock schema mysql` prints."""
    command = [sys.executable, "-m", "fencelock", "schema", "mysql", *options]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


async def test_many_clients_create_it_at_once(
    bare_server: MysqlServer, open_cell: OpenCell
) -> None:
    cell = open_cell(bare_server.url)

    async def take(number: int) -> str:
        client = cell.client()
        while True:
            try:
                return str((await cell.run(client.lock(f"{cell.name}:{number}").acquire)).name)
            except fencelock.EngineError as error:
                if "no answer" not in str(
                    error
                ):  # a slow machine takes more than 2 s for all of it
                    raise

    assert len(set(await asyncio.gather(*(take(n) for n in range(8))))) == 8


@pytest.mark.parametrize("prefix", ["fencelock", "locks"])
async def test_an_owner_creates_it(
    bare_server: MysqlServer, open_cell: OpenCell, prefix: str
) -> None:
    server = bare_server
    sql = printed("--schema", prefix)
    (granted,) = [line.removeprefix("--   ") for line in sql.splitlines() if "GRANT " in line]
    add_user(server, "app")
    for _ in range(2):  # to run it twice does no harm
        run_script(server, sql)
    server.execute(granted)
    cell = open_cell(server.url_of("app", SECRET) + f"?prefix={prefix}")
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    run_script(server, sql)
    await cell.run(lease.renew)
    await cell.run(lease.release)
    made = {name for (name,) in server.execute("SHOW TABLES")}
    assert made == {f"{prefix}_{table}" for table in TABLES}


async def test_prefixes_keep_apart(server: MysqlServer, open_cell: OpenCell) -> None:
    run_script(server, printed("--schema", "others"))
    one, other = open_cell(server.url), open_cell(server.url + "?prefix=others")
    other.name = one.name
    for cell in (one, other):
        client = cell.client()
        assert await cell.run(client.lock(cell.name).try_acquire)
        assert await cell.run(client.lock(cell.name).try_acquire) is None


async def test_it_is_created_again_after_a_drop(cell: Cell, server: MysqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=1).acquire)
    for what in ("TABLE fencelock_names", "PROCEDURE fencelock_v2_leave"):
        server.execute(f"DROP {what}")
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert await cell.run(lambda: lease.lost.wait(PATIENCE))
    await cell.run(again.release)
    server.execute("DROP PROCEDURE fencelock_v2_listen")
    lease = await cell.run(client.lock(cell.name, ttl=60).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    await asleep(server, waiter)
    await cell.run(lease.release)
    await within(waiter)


async def test_a_restored_backup_with_the_clock_behind(cell: Cell, server: MysqlServer) -> None:
    """The stored fence counts, even if the clock is behind it."""
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    await cell.run(lease.release)
    ahead = lease.fence + 10**12
    server.execute("UPDATE fencelock_names SET newest = %s", ahead)
    assert (await cell.run(client.lock(cell.name).acquire)).fence == ahead + 1


def test_unused_names_are_deleted(server: MysqlServer) -> None:
    with fencelock.Client(server.url) as client:
        with client.lock("used"):
            server.execute(
                "INSERT INTO fencelock_names (name, newest, abandoned, id, expires) "
                f"SELECT CONCAT('old:', seq), {NOW} - seq * 3600000000, seq > 10, "
                "IF(seq > 20, 'x', NULL), IF(seq > 20, 5, NULL) FROM seq_0_to_30"
            )
            server.execute(f"CALL fencelock_v2_sweep({NOW})")
        left = server.execute("SELECT CONVERT(name USING utf8mb4) FROM fencelock_names")
    # Released: one hour. Abandoned: a day.
    wanted = ["used", "old:0", *(f"old:{n}" for n in range(11, 24))]
    assert {name for (name,) in left} == {*wanted}
    ((floor,),) = server.execute("SELECT floor FROM fencelock_about")
    assert floor > 0


def test_the_sweep_skips_locked_rows(server: MysqlServer) -> None:
    server.execute("INSERT INTO fencelock_names (name, newest) VALUES ('old', 1)")
    with server.connect() as hog, hog.cursor() as cursor:
        hog.begin()
        cursor.execute("SELECT 1 FROM fencelock_names WHERE name = 'old' FOR UPDATE")
        server.execute(f"CALL fencelock_v2_sweep({NOW})")
        hog.rollback()
    assert server.execute("SELECT newest FROM fencelock_names") == [(1,)]
    server.execute(f"CALL fencelock_v2_sweep({NOW})")
    assert server.execute("SELECT newest FROM fencelock_names") == []


def test_tables_do_not_grow_without_end(server: MysqlServer) -> None:
    def size() -> int:
        path = server.data / DATABASE / "fencelock_names.ibd"
        return path.stat().st_size

    with fencelock.Client(server.url) as client:
        with client.lock("a"):
            before = size()
        for _ in range(2000):
            with client.lock("a"):
                pass
    assert size() == before


def test_names_are_bytes(server: MysqlServer) -> None:
    """No collation makes two of them equal, and no trailing space is lost."""
    names = ["a", "A", "ä", "a ", "a  ", " a", "a" * 512, "é" * 256, "a\\", "a'", '"', "%", "_"]
    with fencelock.Client(server.url) as client:
        leases = [client.lock(name).try_acquire() for name in names]
        assert all(leases)
        assert set(client.names()) == set(names)


def getlock(server: MysqlServer) -> str:
    return server.url.replace("mysql://", "mysql+getlock://")


async def test_session_locks_of_a_database_that_was_renamed(
    server: MysqlServer, open_cell: OpenCell
) -> None:
    """The hash of a name changes then. Its counter stays the same, held or not."""
    cell = open_cell(getlock(server))
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    server.execute("UPDATE fencelock_counters SET hash = 'old'")
    assert await cell.run(client.lock(cell.name).try_acquire) is None
    await cell.run(lease.renew)
    await cell.run(lease.release)
    server.execute("UPDATE fencelock_counters SET hash = 'old'")
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    seen = await cell.run(lambda: client.inspect(cell.name))
    assert [holder.fence for holder in seen.holders] == [again.fence]
    assert server.execute("SELECT COUNT(*) FROM fencelock_counters") == [(1,)]
