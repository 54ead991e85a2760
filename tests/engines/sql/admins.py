"""Administrators of either database: they look at sessions and session locks, and end them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tests.engines.mysql import server_state as mysql
from tests.engines.postgresql import server_state as postgresql
from tests.servers_mysql import MysqlServer
from tests.servers_postgresql import PostgresqlServer


class Admin(ABC):
    """A connection of its own to a server."""

    scheme: str
    server: Any

    @property
    def url(self) -> str:
        """The URL of session locks there, with heartbeats short enough for a test to wait for."""
        _, _, rest = self.server.url.partition("://")
        return f"{self.scheme}://{rest}?heartbeat=1"

    @abstractmethod
    def connections(self) -> int: ...

    @abstractmethod
    def holding(self) -> list[int]:
        """The sessions that have a lock."""

    @abstractmethod
    def waiting(self) -> list[int]:
        """The sessions that wait for a lock."""

    @abstractmethod
    def end(self, session: int) -> None: ...

    @abstractmethod
    def rows(self) -> int:
        """How many tickets the tables have."""

    @abstractmethod
    def failing_releases(self) -> AbstractContextManager[None]:
        """Make every release of a lock fail."""


class PostgresqlAdmin(Admin):
    scheme = "postgresql+advisory"

    def __init__(self, server: PostgresqlServer) -> None:
        self.server = server

    def connections(self) -> int:
        return postgresql.connections(self.server)

    def holding(self) -> list[int]:
        return self._locks(granted=True)

    def waiting(self) -> list[int]:
        return self._locks(granted=False)

    def _locks(self, *, granted: bool) -> list[int]:
        locks = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted = %s"
        return [pid for (pid,) in self.server.execute(locks, granted)]

    def end(self, session: int) -> None:
        self.server.execute("SELECT pg_terminate_backend(%s, 5000)", session)

    def rows(self) -> int:
        return int(self.server.execute("SELECT count(*) FROM fencelock.sessions")[0][0])

    @contextmanager
    def failing_releases(self) -> Iterator[None]:
        release = "FUNCTION fencelock.v2_session_leave"
        self.server.execute(f"ALTER {release} RENAME TO hidden")
        self.server.execute(
            f"CREATE {release}(text, text, bigint, int) RETURNS boolean LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$"
        )
        yield
        self.server.execute(f"DROP {release}")
        self.server.execute("ALTER FUNCTION fencelock.hidden RENAME TO v2_session_leave")


class MysqlAdmin(Admin):
    scheme = "mysql+getlock"

    def __init__(self, server: MysqlServer) -> None:
        self.server = server

    def connections(self) -> int:
        return mysql.connections(self.server)

    def holding(self) -> list[int]:
        held = "SELECT connection FROM fencelock_counters WHERE IS_USED_LOCK(hash) = connection"
        return [id for (id,) in self.server.execute(held)]

    def waiting(self) -> list[int]:
        waiting = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = 'User lock'"
        return [id for (id,) in self.server.execute(f"{waiting} AND USER = %s", self.server.user)]

    def end(self, session: int) -> None:
        self.server.execute(f"KILL CONNECTION {session}")

    def rows(self) -> int:
        holders = "SELECT COUNT(*) FROM fencelock_counters WHERE holder IS NOT NULL"
        waiters = "SELECT COUNT(*) FROM fencelock_sessions"
        return sum(int(self.server.execute(count)[0][0]) for count in (holders, waiters))

    @contextmanager
    def failing_releases(self) -> Iterator[None]:
        release = "PROCEDURE fencelock_v3_session_leave"
        self.server.execute(f"DROP {release}")
        self.server.execute(
            f"CREATE {release}(a BLOB, b BLOB, c INT) "
            "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'no'"
        )
        yield
        self.server.execute(f"DROP {release}")  # whoever needs it creates it again
