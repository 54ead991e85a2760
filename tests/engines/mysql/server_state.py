"""The state of a server, as another connection sees it."""

from __future__ import annotations

import asyncio
import subprocess
from typing import Any

from fencelock.engines.mysql.schema import script
from tests.servers import HOST
from tests.servers_mysql import DATABASE, MysqlServer
from tests.waiting import eventually, soon

_OURS = f"FROM information_schema.PROCESSLIST WHERE USER = '{MysqlServer.user}'"
_LISTENING = "STATE = 'User lock'"


def connections(server: MysqlServer) -> int:
    """How many connections Fencelock has."""
    return int(server.execute(f"SELECT COUNT(*) {_OURS}")[0][0])


def listening(server: MysqlServer) -> list[int]:
    """The listeners: connections that sleep until KILL QUERY wakes them."""
    return [id for (id,) in server.execute(f"SELECT ID {_OURS} AND {_LISTENING}")]


async def asleep(server: MysqlServer, waiter: asyncio.Future[Any]) -> list[int]:
    """Wait for the listener of a waiter.

    Looks in a thread: the waiter may be a task of this loop, with 2 s for each of its requests.
    """

    async def look() -> list[int]:
        if waiter.done():
            waiter.result()  # it failed: say why
        return await asyncio.to_thread(listening, server)

    return list(await soon(look, "the listener"))


def busy(server: MysqlServer, what: str = "") -> list[tuple[Any, ...]]:
    """Our statements that run or wait."""
    return server.execute(
        f"SELECT ID, STATE, INFO {_OURS} AND COMMAND <> 'Sleep' AND NOT {_LISTENING} "
        "AND INFO LIKE %s",
        f"%{what}%",
    )


def transactions(server: MysqlServer) -> list[tuple[Any, ...]]:
    """Our open transactions, idle or not."""
    return server.execute(
        "SELECT trx_mysql_thread_id, trx_state, trx_query FROM information_schema.INNODB_TRX "
        f"WHERE trx_mysql_thread_id IN (SELECT ID {_OURS})"
    )


def cut(server: MysqlServer, *, listeners: bool) -> int:
    """End the connections that listen, or the others. Returns how many there were."""
    negated = "" if listeners else "NOT"
    ids = [id for (id,) in server.execute(f"SELECT ID {_OURS} AND {negated} {_LISTENING}")]
    for id in ids:
        server.execute(f"KILL CONNECTION {id}")
    which = ", ".join(map(str, [*ids, 0]))
    gone = f"SELECT ID FROM information_schema.PROCESSLIST WHERE ID IN ({which})"
    eventually(lambda: not server.execute(gone), "the server to hang up")
    return len(ids)


def rows(server: MysqlServer, name: str) -> tuple[int, int]:
    """The numbers of holders and of waiters of a name."""
    ((held, waiting),) = server.execute(
        "SELECT (SELECT COUNT(*) FROM fencelock_names WHERE name = %s AND id IS NOT NULL), "
        "(SELECT COUNT(*) FROM fencelock_tickets WHERE name = %s AND admitted IS NULL)",
        name,
        name,
    )
    return held, waiting


def clean(server: MysqlServer) -> None:
    """Remove all traces of other tests, and create all tables and procedures."""
    eventually(lambda: connections(server) == 0, "other tests to hang up")
    run_script(server, script())
    for table in ("names", "tickets", "notes", "counters", "sessions"):
        server.execute(f"DELETE FROM fencelock_{table}")


def run_script(server: MysqlServer, text: str) -> None:
    """Feed SQL to the command line client, as an owner would."""
    client = ["mariadb", "--no-defaults", f"--host={HOST}", f"--port={server.port}"]
    subprocess.run(
        [*client, "--user=admin", f"--password={server.password}", DATABASE],
        input=text,
        text=True,
        check=True,
        timeout=60,
    )
