"""What tests need beside `fencelock.servers.postgresql`: standbys and poolers."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import psycopg

from fencelock.servers.postgresql import PASSWORD, PostgresqlServer, as_account, reachable, remove
from tests.servers import HOST, Server, Setting
from tests.waiting import eventually

__all__ = ["PASSWORD", "PostgresqlServer"]


class Standby(PostgresqlServer):
    """A copy that follows its primary, asynchronously."""

    def __init__(self, folder: Path, primary: PostgresqlServer) -> None:
        super().__init__(folder)
        self.primary = primary
        self.password = primary.password

    def _make(self) -> None:
        source = f"host={HOST} port={self.primary.port} user={self.user} password={self.password}"
        self.run(
            "pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-c", "fast", "--no-sync"
        )

    def wait_for_sync(self) -> None:
        """Wait until the standby has everything that the primary has now."""
        ((position,),) = self.primary.execute("SELECT pg_current_wal_lsn()")
        eventually(
            lambda: self.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", position)[0][0],
            "the standby to catch up",
        )

    def cut_off(self) -> None:
        """Cut the standby off from the primary."""
        self.execute("ALTER SYSTEM SET primary_conninfo = ''")
        self.execute("SELECT pg_reload_conf()")
        eventually(
            lambda: self.execute("SELECT count(*) FROM pg_stat_wal_receiver") == [(0,)],
            "the standby to be cut off",
        )

    def promote(self) -> None:
        """Promote the standby to a primary."""
        assert self.execute("SELECT pg_promote()") == [(True,)]


class PgBouncer(Server):
    """A pooler in front of a server, by default in transaction mode."""

    def __init__(self, folder: Path, server: PostgresqlServer, **settings: Setting) -> None:
        super().__init__(reachable(folder))
        self.server = server
        self.settings: dict[str, Setting] = {"pool_mode": "transaction", **settings}

    def command(self) -> list[str]:
        settings = {
            "listen_addr": HOST,
            "listen_port": self.port,
            "unix_socket_dir": "",
            "auth_type": "plain",
            "auth_file": self.folder / "users",
            "default_pool_size": 5,
            "max_client_conn": 200,
            **self.settings,
        }
        lines = ["[databases]", f"* = host={HOST} port={self.server.port}", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in settings.items()]
        (self.folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        (self.folder / "users").write_text(f'"{self.server.user}" "{self.server.password}"\n')
        return [*as_account(), "/usr/sbin/pgbouncer", str(self.folder / "pgbouncer.ini")]

    def __exit__(self, *_: object) -> None:
        self.kill()
        remove(self.folder)

    def ready(self) -> bool:
        try:
            with psycopg.connect(self.url, connect_timeout=5) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    @property
    def url(self) -> str:
        server = self.server
        return f"postgresql://{server.user}:{server.password}@{HOST}:{self.port}/postgres"


class PostgresqlFactory(Protocol):
    """The type of the fixture `postgresql_server`. Call it to start a private server with these settings."""

    def __call__(self, **settings: Setting) -> PostgresqlServer: ...
