"""The state of a server, as another connection sees it."""

from __future__ import annotations

from typing import Any

from tests.servers_postgresql import PostgresqlServer
from tests.waiting import eventually

_OURS = "FROM pg_stat_activity WHERE application_name = 'fencelock' AND pid <> pg_backend_pid()"


def connections(server: PostgresqlServer) -> int:
    """How many connections Fencelock has."""
    return int(server.execute(f"SELECT count(*) {_OURS}")[0][0])


def listening(server: PostgresqlServer) -> list[int]:
    """The backends whose last statement was LISTEN."""
    return [pid for (pid,) in server.execute(f"SELECT pid {_OURS} AND query LIKE 'LISTEN%'")]


def busy(server: PostgresqlServer, what: str = "") -> list[tuple[Any, ...]]:
    """Our connections that are not idle: statements that run or wait, open transactions."""
    return server.execute(
        f"SELECT pid, state, query {_OURS} AND state <> 'idle' AND query LIKE %s", f"%{what}%"
    )


def cut(server: PostgresqlServer, *, listeners: bool) -> int:
    """Terminate the backends that listen, or the others. Returns how many there were."""
    which = "LIKE" if listeners else "NOT LIKE"
    pids = [pid for (pid,) in server.execute(f"SELECT pid {_OURS} AND query {which} 'LISTEN%'")]
    for pid in pids:
        server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)
    return len(pids)


def clean(server: PostgresqlServer) -> None:
    """Remove all traces of other tests."""
    eventually(lambda: connections(server) == 0, "other tests to hang up")
    server.execute("DROP SCHEMA IF EXISTS fencelock CASCADE")


def rows(server: PostgresqlServer, name: str) -> tuple[int, int]:
    """The numbers of holders and of waiters of a name."""
    ((held, waiting),) = server.execute(
        "SELECT (SELECT count(*) FROM fencelock.names WHERE name = %s AND id IS NOT NULL), "
        "(SELECT count(*) FROM fencelock.tickets WHERE name = %s AND admitted IS NULL)",
        name,
        name,
    )
    return held, waiting
