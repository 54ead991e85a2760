"""Each check of PostgreSQL on a real server that has the fault, and on one that has not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import fencelock
from fencelock.doctor import Report
from tests.doctor.examining import bad, check, examined, examined_async, in_time, with_status
from tests.servers import HOST, Setting, free_port
from tests.servers_postgresql import PASSWORD, PgBouncer, PostgresqlServer, Standby
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("few_round_trips")

APP = "app"
"""A user without any right at first."""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresqlServer]:
    folder = tmp_path_factory.mktemp("doctor")
    settings: dict[str, Setting] = {
        "fsync": "on",
        "full_page_writes": "on",
        "autovacuum_naptime": "1d",  # no test waits for it, and one counts dead rows
        "wal_keep_size": "64MB",  # the standby is cut off between its tests
    }
    with PostgresqlServer(folder, environment=None, **settings) as server:
        server.execute(f"CREATE ROLE {APP} LOGIN PASSWORD '{PASSWORD}'")
        examined(f"{server.url}?schema=granted", probe=True)  # makes the tables
        grant_all(server, "granted")
        yield server


def grant_all(server: PostgresqlServer, schema: str) -> None:
    """Let the user lock in a schema whose tables are there."""
    server.execute(f"GRANT USAGE ON SCHEMA {schema} TO {APP}")
    server.execute(
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {APP}"
    )


@pytest.fixture
def server(one: PostgresqlServer) -> Iterator[PostgresqlServer]:
    """A server without a fault. What a test changes there is as before afterwards."""
    yield one
    with one.connect(options="-c default_transaction_read_only=off") as connection:
        connection.execute("ALTER SYSTEM RESET ALL")
        # First: commits may be waiting for a standby that is gone.
        connection.execute("SELECT pg_reload_conf()")
        for role in (one.user, APP):
            connection.execute(f"ALTER ROLE {role} RESET ALL")
        connection.execute(f"ALTER ROLE {APP} CONNECTION LIMIT -1")
        connection.execute("ALTER DATABASE postgres CONNECTION LIMIT -1")
        connection.execute(f"REVOKE pg_monitor FROM {APP}")
        connection.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
    wait_until_alone(one)


def wait_until_alone(server: PostgresqlServer) -> None:
    eventually(lambda: not server.execute("SELECT 1 FROM pg_stat_replication"), "no standby")


@pytest.fixture
def bouncer(server: PostgresqlServer, tmp_path: Path) -> Iterator[Callable[..., PgBouncer]]:
    with ExitStack() as running:

        def start(**settings: Setting) -> PgBouncer:
            return running.enter_context(PgBouncer(tmp_path / "pgbouncer", server, **settings))

        yield start


@pytest.fixture(scope="module")
def follower(one: PostgresqlServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standby]:
    with Standby(tmp_path_factory.mktemp("standby"), one) as standby:
        yield standby


@pytest.fixture
def standby(server: PostgresqlServer, follower: Standby) -> Iterator[Standby]:
    """A standby of that server. To the tests that don't ask for one, the server has none."""
    source = f"host={HOST} port={server.port} user={server.user} password={PASSWORD}"
    follower.execute(f"ALTER SYSTEM SET primary_conninfo = '{source}'")
    follower.execute("SELECT pg_reload_conf()")
    wait_for_standby(server, "async")
    yield follower
    follower.cut_off()


def wait_for_standby(server: PostgresqlServer, state: str) -> None:
    seen = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
    eventually(lambda: server.execute(seen) == [(state,)], f"the standby to be {state}")


def set_system(server: PostgresqlServer, name: str, value: str) -> None:
    server.execute(f"ALTER SYSTEM SET {name} = {value}")
    server.execute("SELECT pg_reload_conf()")
    wanted = value.strip("'")
    eventually(lambda: server.execute(f"SHOW {name}") == [(wanted,)], f"{name} to be {wanted}")


def with_sessions(url: str) -> str:
    return url.replace("postgresql:", "postgresql+advisory:") + "?heartbeat=200"


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_server_without_a_fault(server: PostgresqlServer, examine: Callable[..., Report]) -> None:
    report = examine(server.url, probe=True)
    assert (report.verdict, report.promise) == ("correctness", "correctness")
    assert with_status(report, "bad", "unknown", "advice") == set()
    assert report.identity
    (clock,) = report.clocks
    assert abs(clock.offset) <= clock.uncertainty + 0.01
    sessions = examine(with_sessions(server.url))
    assert (sessions.verdict, sessions.promise) == ("efficiency", "efficiency")
    assert with_status(sessions, "bad", "unknown", "advice") == set()
    assert sessions.ttl is None


def test_a_server_that_does_not_flush(postgresql_url: str) -> None:
    """The server that all tests share is one."""
    report = examined(postgresql_url)
    assert bad(report) == {"durability"}
    assert check(report, "durability").detail == "fsync and full_page_writes off"
    assert report.verdict == "efficiency"
    # For session locks no more was promised.
    sessions = examined(with_sessions(postgresql_url))
    assert (sessions.verdict, sessions.in_the_way) == ("efficiency", ())


def test_the_identity_is_that_of_the_tables(server: PostgresqlServer, postgresql_url: str) -> None:
    ours = examined(server.url).identity
    assert examined(server.url_of(APP, PASSWORD)).identity == ours
    other = examined(f"{server.url}?schema=others").identity
    assert len({ours, other, examined(postgresql_url).identity}) == 3


# --- rights and settings


def test_a_user_without_rights(server: PostgresqlServer) -> None:
    url = f"{server.url_of(APP, PASSWORD)}?schema=rights"
    found = check(examined(url), "rights")
    assert (found.status, found.leaves) == ("bad", "not safe")
    assert "is not there" in found.detail
    examined(f"{server.url}?schema=rights", probe=True)  # makes the tables
    assert "may not write" in check(examined(url), "rights").detail
    server.execute(f"GRANT USAGE ON SCHEMA rights TO {APP}")
    assert "may not write" in check(examined(url), "rights").detail
    grant_all(server, "rights")
    assert with_status(examined(url, probe=True), "bad", "unknown", "advice") == set()


def test_a_user_whose_transactions_are_read_only(server: PostgresqlServer) -> None:
    server.execute(f"ALTER ROLE {server.user} SET default_transaction_read_only = on")
    report = examined(server.url)
    assert (bad(report), report.verdict) == ({"session"}, "not safe")


def test_settings_of_the_user_that_our_connections_override(server: PostgresqlServer) -> None:
    for setting in ("statement_timeout = 300", "idle_session_timeout = 5000"):
        server.execute(f"ALTER ROLE {APP} SET {setting}")
    server.execute(f"ALTER ROLE {APP} SET synchronous_commit = off")
    report = examined(f"{server.url_of(APP, PASSWORD)}?schema=granted")
    assert with_status(report, "bad", "advice") == set()
    assert "switch it on" in check(report, "commits").detail


def test_without_autovacuum(server: PostgresqlServer) -> None:
    set_system(server, "autovacuum", "off")
    assert bad(examined(server.url)) == {"vacuum"}


def test_dead_rows(server: PostgresqlServer) -> None:
    examined(server.url, probe=True)  # makes the tables
    server.execute(
        "INSERT INTO fencelock.names (name, newest) SELECT i::text, 1 FROM generate_series(1, 30000) i"
    )
    server.execute("DELETE FROM fencelock.names WHERE newest = 1")
    eventually(
        lambda: check(examined(server.url), "vacuum").status == "advice", "the server to count"
    )
    server.execute("VACUUM fencelock.names")
    eventually(lambda: check(examined(server.url), "vacuum").status == "ok", "the vacuum")


@pytest.mark.parametrize("whose", ["the user", "the database"])
def test_nearly_all_connections_are_used(server: PostgresqlServer, whose: str) -> None:
    what = f"ROLE {APP}" if whose == "the user" else "DATABASE postgres"
    server.execute(f"ALTER {what} CONNECTION LIMIT 1")

    url = f"{server.url_of(APP, PASSWORD)}?schema=granted"
    report = in_time(
        url, lambda _: True, "the only connection, until which the one before has ended"
    )
    found = check(report, "connections")
    assert (found.status, whose in found.detail) == ("bad", True)
    # It had no second connection to find out about a pooler.
    assert check(report, "pooler").status == "unknown"


def test_a_server_that_is_down(server: PostgresqlServer) -> None:
    nobody = f"{HOST}:{free_port()}"
    report = examined(f"postgresql://{server.user}:{PASSWORD}@{nobody},{server.address}/postgres")
    assert (bad(report), report.verdict) == ({"reachable"}, "correctness")
    with pytest.raises(fencelock.EngineError, match="is the server running there"):
        examined(f"postgresql://{nobody}/postgres")


# --- poolers


def test_a_pooler_in_transaction_mode(
    server: PostgresqlServer, bouncer: Callable[..., PgBouncer]
) -> None:
    pooler = bouncer()
    report = examined(pooler.url)
    assert with_status(report, "bad", "unknown", "advice") == {"pooler"}
    assert report.verdict == "correctness"
    sessions = examined_async(with_sessions(pooler.url))
    assert (bad(sessions), sessions.verdict) == ({"pooler"}, "not safe")


@pytest.mark.parametrize(
    ("setting", "id", "status", "verdict"),
    [
        ("synchronous_commit = off", "commits", "bad", "efficiency"),
        ("synchronous_commit = local", "commits", "ok", "correctness"),
        ("statement_timeout = 500", "session", "bad", "correctness"),
        ("idle_session_timeout = 60000", "session", "advice", "correctness"),
        ("default_transaction_isolation = 'serializable'", "session", "bad", "not safe"),
    ],
)
def test_behind_a_pooler_the_users_settings_count(
    server: PostgresqlServer,
    bouncer: Callable[..., PgBouncer],
    setting: str,
    id: str,
    status: str,
    verdict: str,
) -> None:
    server.execute(f"ALTER ROLE {server.user} SET {setting}")
    report = examined(bouncer(pool_mode="session").url)
    assert (check(report, id).status, report.verdict) == (status, verdict)
    assert check(report, "pooler").detail == "a pooler in session mode"


# --- standbys


def test_a_standby_that_is_away(server: PostgresqlServer) -> None:
    server.execute("SELECT pg_create_physical_replication_slot('absent')")
    report = examined(f"{server.url_of(APP, PASSWORD)}?schema=granted")
    server.execute("SELECT pg_drop_replication_slot('absent')")
    assert (bad(report), report.verdict) == ({"standbys"}, "efficiency")


def test_an_asynchronous_standby(server: PostgresqlServer, standby: Standby) -> None:
    report = examined(server.url)
    assert (bad(report), report.verdict) == ({"standbys"}, "efficiency")
    assert report.next == "for correctness mend: standbys"
    # Most users do not see to whom the server sends its log.
    url = f"{server.url_of(APP, PASSWORD)}?schema=granted"
    report = examined(url)
    assert with_status(report, "unknown") == {"standbys"}
    assert [each.id for each in report.unknown("correctness")] == ["standbys"]
    server.execute(f"GRANT pg_monitor TO {APP}")
    assert bad(examined(url)) == {"standbys"}
    server.execute(f"REVOKE pg_monitor FROM {APP}")

    both = examined(
        f"postgresql://{server.user}:{PASSWORD}@{standby.address},{server.address}/postgres"
    )
    assert check(both, "primary").detail == server.address
    assert "standbys" in bad(both)
    alone = examined(standby.url)
    assert check(alone, "primary").status == "bad"
    assert alone.verdict == "not safe"


def test_a_client_that_needs_correctness_refuses_an_asynchronous_standby(
    server: PostgresqlServer, standby: Standby
) -> None:
    with fencelock.Client(server.url, purpose="correctness", diagnose=True) as client:
        with pytest.raises(fencelock.UnsafeEngine, match="synchronous_standby_names"):
            client.lock("x", guard=None).acquire()
        assert client.names() == []

        async def refused() -> None:
            async with fencelock.AsyncClient(
                server.url, purpose="correctness", diagnose=True
            ) as client:
                with pytest.raises(fencelock.UnsafeEngine, match="efficiency and not correctness"):
                    await client.lock("x", guard=None).acquire()

        asyncio.run(refused())
        with fencelock.Client(server.url, diagnose=True) as careless:
            careless.lock("x").acquire().release()
        # Once it is mended, the same client goes on.
        set_system(server, "synchronous_standby_names", "'*'")
        wait_for_standby(server, "sync")
        client.lock("x", guard=None).acquire().release()


def test_synchronous_standbys(server: PostgresqlServer, standby: Standby) -> None:
    set_system(server, "synchronous_standby_names", "'ANY 1 (*)'")
    wait_for_standby(server, "quorum")
    report = examined(server.url)
    assert (check(report, "standbys").detail, report.verdict) == ("synchronous", "correctness")
    hidden = examined(f"{server.url_of(APP, PASSWORD)}?schema=granted")
    assert check(hidden, "standbys").status == "unknown"

    server.execute("SELECT pg_create_physical_replication_slot('absent')")
    found = check(examined(server.url), "standbys")
    assert (found.status, "away" in found.detail) == ("advice", True)
    server.execute("SELECT pg_drop_replication_slot('absent')")

    standby.cut_off()
    wait_until_alone(server)
    report = examined(server.url)
    assert "commits wait" in check(report, "standbys").detail
    assert (bad(report), report.verdict) == ({"standbys"}, "correctness")


def test_two_primaries(server: PostgresqlServer, tmp_path: Path) -> None:
    with Standby(tmp_path, server) as promoted:
        promoted.promote()
        both = f"{server.address},{promoted.address}"
        report = examined(f"postgresql://{server.user}:{PASSWORD}@{both}/postgres")
    assert (report.verdict, report.next) == ("not safe", "for efficiency mend: primary")
    assert "end the old primary" in check(report, "primary").mend
