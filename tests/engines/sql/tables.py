"""The tables of either database, for tests that read or change them directly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tests.servers_mysql import MysqlServer
from tests.servers_postgresql import PostgresqlServer

_FOR_LONG = 4 * 10**15
"""A moment, in µs since 1970, that no test will see."""


class Tables(ABC):
    """How a database names the tables, and calls the functions that work on them."""

    prefix: str
    call: str
    series: str
    text: str
    server: Any

    def set(self, table: str, changes: str, condition: str = "1 = 1") -> None:
        self.server.execute(f"UPDATE {self.prefix}{table} SET {changes} WHERE {condition}")

    def crowd(self, name: str, count: int) -> None:
        """Add so many exclusive waiters to the queue of a name."""
        self.server.execute(
            f"INSERT INTO {self.prefix}tickets (name, fence, id, owner, joined, expires, channel) "
            f"SELECT %s, {_FOR_LONG} + seq, CONCAT('crowd ', seq), 'host 1 ', 1, {_FOR_LONG}, '' "
            f"FROM {self.series.format(count)}",
            name,
        )

    def noted(self) -> list[str]:
        """The names that have a note, expired or not."""
        rows = self.server.execute(f"SELECT {self.text.format('name')} FROM {self.prefix}notes")
        return sorted(name for (name,) in rows)

    def run(self, call: str) -> None:
        self.server.execute(f"{self.call}{call}")

    @abstractmethod
    def reads(self, call: str) -> int:
        """How many tickets the server reads for a call."""


class PostgresqlTables(Tables):
    prefix = "fencelock."
    call = "SELECT fencelock."
    series = "generate_series(1, {}) seq"
    text = "{}"

    def __init__(self, server: PostgresqlServer) -> None:
        self.server = server

    def reads(self, call: str) -> int:
        with self.server.connect() as connection, connection.transaction():
            connection.execute(self.call + call)
            row = connection.execute(
                "SELECT sum(pg_stat_get_xact_tuples_returned(c.oid)) FROM pg_class c "
                "JOIN pg_index i ON i.indexrelid = c.oid "
                "WHERE i.indrelid = 'fencelock.tickets'::regclass"
            ).fetchone()
        return int(row[0])


class MysqlTables(Tables):
    prefix = "fencelock_"
    call = "CALL fencelock_"
    series = "seq_1_to_{}"
    text = "CONVERT({} USING utf8mb4)"

    def __init__(self, server: MysqlServer) -> None:
        self.server = server

    def reads(self, call: str) -> int:
        with self.server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH STATUS")
            cursor.execute(self.call + call)
            while cursor.nextset():
                pass
            cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%%'")
            return sum(int(count) for _, count in cursor.fetchall())
