"""Each check of MySQL on a real MariaDB that has the fault, and on one that has not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

import fencelock
from fencelock.doctor import Report
from tests.doctor.examining import bad, check, examined, examined_async, in_time, with_status
from tests.servers import HOST, free_port
from tests.servers_mysql import DATABASE, MysqlServer
from tests.waiting import PATIENCE, eventually

pytestmark = pytest.mark.usefixtures("few_round_trips")

APP = "app"
"""A user without any right at first."""

GALERA = Path("/usr/lib/galera/libgalera_smm.so")

SOUND: dict[str, Any] = {
    "innodb_flush_log_at_trx_commit": 1,
    "innodb_doublewrite": "ON",
    "log_bin": "log",
    "binlog_format": "MIXED",
    "sync_binlog": 1,
    "server_id": 1,
}


def with_binary_log(folder: Path, template: Path, **settings: Any) -> MysqlServer:
    server = MysqlServer(folder, template, **settings)
    del server.settings["skip_log_bin"]
    return server


@pytest.fixture(scope="module")
def one(mysql_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MysqlServer]:
    folder = tmp_path_factory.mktemp("doctor")
    with with_binary_log(folder, mysql_template, **SOUND) as server:
        yield server


@pytest.fixture
def server(one: MysqlServer) -> Iterator[MysqlServer]:
    """A server without a fault. What a test changes there is as before afterwards."""
    before = dict(one.execute("SHOW GLOBAL VARIABLES"))
    one.execute(f"CREATE OR REPLACE USER {APP} IDENTIFIED BY '{one.password}'")
    yield one
    for name, value in one.execute("SHOW GLOBAL VARIABLES"):
        if before[name] != value and not name.startswith("gtid_"):
            one.execute(
                f"SET GLOBAL {name} = %s",
                int(before[name]) if before[name].isdigit() else before[name],
            )
    eventually(lambda: not end_others(one), "the connections of clients and replicas to end")


def end_others(server: MysqlServer) -> int:
    """End all other connections. Returns how many there are still."""
    others = server.execute(
        "SELECT ID FROM information_schema.PROCESSLIST"
        " WHERE ID <> CONNECTION_ID() AND USER <> 'system user'"
    )
    for (number,) in others:
        with suppress(pymysql.MySQLError):  # it has just ended
            server.execute(f"KILL {number}")
    return len(others)


def with_sessions(url: str) -> str:
    return url.replace("mysql:", "mysql+getlock:") + "?heartbeat=200"


@pytest.mark.parametrize("examine", [examined, examined_async])
def test_a_server_without_a_fault(server: MysqlServer, examine: Callable[..., Report]) -> None:
    report = examine(server.url, probe=True)
    assert (report.verdict, report.promise) == ("correctness", "correctness")
    assert with_status(report, "bad", "unknown", "advice") == set()
    assert report.identity
    (clock,) = report.clocks
    assert abs(clock.offset) <= clock.uncertainty + 0.01
    sessions = examine(with_sessions(server.url), probe=True)
    assert (sessions.verdict, sessions.promise) == ("efficiency", "efficiency")
    assert with_status(sessions, "bad", "unknown", "advice") == set()
    assert sessions.ttl is None


def test_a_server_that_does_not_flush(mysql_url: str) -> None:
    """The server that all tests share is one."""
    report = examined(mysql_url)
    assert (bad(report), report.verdict) == ({"durability"}, "efficiency")
    sessions = examined(with_sessions(mysql_url))
    assert (sessions.verdict, sessions.in_the_way) == ("efficiency", ())


def test_the_identity_is_that_of_the_tables(server: MysqlServer, mysql_url: str) -> None:
    ours = examined(server.url).identity
    assert examined(server.url_of("admin", server.password)).identity == ours
    assert (
        len({ours, examined(f"{server.url}?prefix=x").identity, examined(mysql_url).identity}) == 3
    )


@pytest.mark.parametrize(
    ("setting", "id", "status", "verdict"),
    [
        ("innodb_flush_log_at_trx_commit = 0", "durability", "bad", "efficiency"),
        ("innodb_flush_log_at_trx_commit = 3", "durability", "ok", "correctness"),
        ("sync_binlog = 0", "binary-log", "bad", "efficiency"),
        ("binlog_format = STATEMENT", "binary-log", "bad", "not safe"),
        ("read_only = ON", "role", "bad", "not safe"),
        ("wait_timeout = 5", "idle", "advice", "correctness"),
        ("max_connections = 10", "connections", "ok", "correctness"),
    ],
)
def test_settings(server: MysqlServer, setting: str, id: str, status: str, verdict: str) -> None:
    server.execute(f"SET GLOBAL {setting}")
    report = examined(server.url)
    assert (check(report, id).status, report.verdict) == (status, verdict)
    assert bad(report) == ({id} if status == "bad" else set())
    assert bool(check(report, id).mend) is (status != "ok")


def test_a_session_lock_does_not_care_about_the_wait_timeout(server: MysqlServer) -> None:
    server.execute("SET GLOBAL wait_timeout = 5")
    assert check(examined(with_sessions(server.url)), "idle").status == "ok"


def test_nearly_all_connections_are_used(server: MysqlServer) -> None:
    with ExitStack() as idle:
        connections = [idle.enter_context(closing(server.connect())) for _ in range(9)]
        with connections[0].cursor() as cursor:

            def connected() -> int:
                cursor.execute("SHOW STATUS LIKE 'Threads_connected'")
                return int(cursor.fetchall()[0][1])

            eventually(lambda: connected() == 9, "earlier connections to be closed")
            cursor.execute("SET GLOBAL max_connections = 10")
        found = check(examined(server.url), "connections")
    assert (found.status, "10 of 10" in found.detail) == ("bad", True)


# --- rights


def test_a_user_without_rights(server: MysqlServer) -> None:
    url = server.url_of(APP, server.password) + "?prefix=rights"
    server.execute(f"GRANT SELECT ON {DATABASE}.* TO {APP}")
    examined(f"{server.url}?prefix=rights", probe=True)  # makes the tables
    for right in ("INSERT", "UPDATE", "DELETE", "EXECUTE"):
        report = examined(url)
        assert (check(report, "rights").status, report.verdict) == ("bad", "not safe")
        server.execute(f"GRANT {right} ON {DATABASE}.* TO {APP}")
    assert with_status(examined(url, probe=True), "bad", "unknown", "advice") == set()
    # It may have got the right to create tables in a way that the server does not show.
    found = check(examined(server.url_of(APP, server.password) + "?prefix=missing"), "rights")
    assert (found.status, found.leaves) == ("unknown", "not safe")


def test_waiters_that_log_in_as_another_user(server: MysqlServer) -> None:
    server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {DATABASE}.* TO {APP}")
    theirs = server.url_of(APP, server.password)
    with fencelock.Client(server.url) as ours, fencelock.Client(theirs) as other:
        with ours.lock("x"):
            assert check(examined(server.url), "kill").status == "ok"
            waiter = threading.Thread(
                target=lambda: other.lock("x").acquire(timeout=PATIENCE).release()
            )
            waiter.start()
            in_time(
                server.url,
                lambda report: "wakes them late" in check(report, "kill").detail,
                "the waiter to be seen",
            )
            admin = server.url_of("admin", server.password)
            assert check(examined(admin), "kill").status == "ok"
        waiter.join()


def test_sessions_of_another_user(server: MysqlServer) -> None:
    server.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON {DATABASE}.* TO {APP}")
    ours = with_sessions(server.url)
    with fencelock.Client(ours) as client, client.lock("x"):
        assert check(examined(ours), "kill").status == "ok"
    with (
        fencelock.Client(with_sessions(server.url_of(APP, server.password))) as client,
        client.lock("x"),
    ):
        found = check(examined(ours), "kill")
        assert (found.status, "can't be ended" in found.detail) == ("advice", True)


# --- other servers


def test_an_asynchronous_replica(server: MysqlServer, mysql_template: Path, tmp_path: Path) -> None:
    ((file, position, *_),) = server.execute("SHOW MASTER STATUS")
    with MysqlServer(tmp_path / "replica", mysql_template, **{**SOUND, "server_id": 2}) as replica:
        replica.execute(
            "CHANGE MASTER TO MASTER_HOST = %s, MASTER_PORT = %s, MASTER_USER = 'admin', "
            "MASTER_PASSWORD = %s, MASTER_LOG_FILE = %s, MASTER_LOG_POS = %s",
            *(HOST, server.port, server.password, file, position),
        )
        replica.execute("START SLAVE")
        report = in_time(server.url, lambda report: "replicas" in bad(report), "it to be connected")
        assert (report.verdict, report.next) == (
            "efficiency",
            "for correctness mend: replicas",
        )
        followed = examined(replica.url)
        assert (bad(followed), followed.verdict) == ({"role"}, "not safe")
        with (
            fencelock.Client(server.url, purpose="correctness", diagnose=True) as client,
            pytest.raises(fencelock.UnsafeEngine, match="1 connected"),
        ):
            client.lock("x", guard=None).acquire()


@pytest.mark.skipif(not GALERA.exists(), reason="Galera is not installed")
def test_a_node_of_galera(mysql_template: Path, tmp_path: Path) -> None:
    settings = SOUND | {
        "binlog_format": "ROW",
        "wsrep_on": "ON",
        "wsrep_provider": GALERA,
        "wsrep_cluster_address": "gcomm://",
        "wsrep_node_address": HOST,
        "wsrep_provider_options": f"gmcast.listen_addr=tcp://{HOST}:{free_port()}",
    }
    with with_binary_log(tmp_path / "galera", mysql_template, **settings) as node:
        report = examined(node.url)
        assert with_status(report, "bad", "unknown", "advice") == {"galera"}
        assert [each.id for each in report.unknown("correctness")] == ["galera"]
        sessions = examined(with_sessions(node.url))
        assert (bad(sessions), sessions.verdict) == ({"galera"}, "not safe")


def test_a_server_that_is_down() -> None:
    with pytest.raises(fencelock.EngineError, match="is the server running there"):
        examined(f"mysql://{HOST}:{free_port()}/locks")
