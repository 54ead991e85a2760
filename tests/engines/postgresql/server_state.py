"""What a witness sees in the server."""

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
    """What is not done: statements that run or wait, transactions that are open."""
    return server.execute(
        f"SELECT pid, state, query {_OURS} AND state <> 'idle' AND query LIKE %s", f"%{what}%"
    )


def cut(server: PostgresqlServer, *, listeners: bool) -> int:
    """Terminate the backends that listen, or the others; how many there were."""
    which = "LIKE" if listeners else "NOT LIKE"
    pids = [pid for (pid,) in server.execute(f"SELECT pid {_OURS} AND query {which} 'LISTEN%'")]
    for pid in pids:
        server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)
    return len(pids)


def clean(server: PostgresqlServer) -> None:
    """Leave no trace of other tests."""
    eventually(lambda: connections(server) == 0, "other tests to hang up")
    server.execute("DROP SCHEMA IF EXISTS fencelock CASCADE")


def rows(server: PostgresqlServer, name: str) -> tuple[int, int]:
    """How many hold a name, and how many wait for it."""
    ((held, waiting),) = server.execute(
        "SELECT (SELECT count(*) FROM fencelock.names WHERE name = %s AND id IS NOT NULL), "
        "(SELECT count(*) FROM fencelock.tickets WHERE name = %s AND admitted IS NULL)",
        name,
        name,
    )
    return held, waiting
