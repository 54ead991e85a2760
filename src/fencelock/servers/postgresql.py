"""Private PostgreSQL servers. As root, the account of Debian's package runs them."""

from __future__ import annotations

import atexit
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg

from fencelock.servers.process import (
    DIE_WITH_PARENT,
    HOST,
    Server,
    Setting,
    children_of,
    path_of,
    run,
)

_ACCOUNT = "postgres"
"""The account that runs the server if we run as root: PostgreSQL refuses to run as root."""

USER = "tester"

PASSWORD = token_hex(8)
"""The password of all servers that this process starts, and of no others."""


class PostgresqlServer(Server):
    """One PostgreSQL, with durability switched off unless the settings say otherwise.

    Settings are those of postgresql.conf: `PostgresqlServer(folder, fsync="on")`. As root it uses a folder
    of its own.
    """

    package = "postgresql"
    user = USER

    def __init__(
        self, folder: Path, *, environment: Mapping[str, str] | None = None, **settings: Setting
    ) -> None:
        super().__init__(reachable(folder), environment=environment)
        self.password = PASSWORD
        self.data = self.folder / "data"
        self.settings: dict[str, Setting] = {
            "listen_addresses": HOST,
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "track_functions": "all",
            "full_page_writes": "off",
            "max_connections": 150,
            "shared_buffers": "16MB",
            "dynamic_shared_memory_type": "mmap",  # in its folder, because a killed server does not clean up
            "wal_level": "replica",
            "max_wal_size": "64MB",
            "min_wal_size": "32MB",
            "timezone": "UTC",
            "password_encryption": "md5",
            **settings,
        }

    def command(self) -> list[str]:
        words = [*as_account(), str(_binaries() / "postgres"), "-D", str(self.data)]
        for name, value in {**self.settings, "port": self.port}.items():
            words += ["-c", f"{name}={value}"]
        return words

    def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            self._make()
        super().launch()

    def _make(self) -> None:
        """Make a new cluster of databases, as a copy, because making one from scratch takes long."""
        run(*as_account(), "cp", "-a", _template(), self.data, package=self.package)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the account that runs the server."""
        _execute(program, *arguments)

    def ready(self) -> bool:
        try:
            # Another server on our port has another password.
            return self.execute("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    @property
    def url(self) -> str:
        return self.url_of(self.user, self.password)

    def url_of(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@{self.address}/{database}"

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Make a connection of an administrator."""
        return psycopg.connect(
            host=HOST,
            port=self.port,
            user=self.user,
            password=self.password,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
            **options,
        )

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement on a new connection."""
        with self.connect() as connection:
            cursor = connection.execute(sql, values or None)
            return cursor.fetchall() if cursor.description else []

    def __exit__(self, *_: object) -> None:
        self._end(signal.SIGQUIT)  # at once; a SIGKILL would leave shared memory behind
        remove(self.folder)

    def stop(self) -> None:
        """Shut it down without waiting for its clients to leave ("fast")."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Crash: all of its processes end at once."""
        children, segment = self._children(), self._segment()
        super().kill()  # first the process that would start the others again
        for child in children:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(child, signal.SIGKILL)
            ended = select.poll()
            ended.register(child, select.POLLIN)
            ended.poll(10_000)
            os.close(child)
        if segment:
            subprocess.run(["ipcrm", "-m", segment], check=False, capture_output=True)

    def _children(self) -> list[int]:
        """Its other processes. A descriptor means the same process, also when the number is used again."""
        found = []
        for pid in self._pids()[1:] if self.runs else ():
            with suppress(ProcessLookupError):
                found.append(os.pidfd_open(pid))
        return found

    def _pids(self) -> list[int]:
        return [self.pid, *children_of(self.pid)]

    def _segment(self) -> str:
        """The id of the few bytes of shared memory that a killed server leaves behind."""
        try:
            _, segment = (self.data / "postmaster.pid").read_text().splitlines()[6].split()
        except (OSError, IndexError, ValueError):
            return ""
        return segment


def as_account() -> list[str]:
    """What to put before a command, so that the account runs it."""
    if os.getuid() != 0:
        return []
    # Ask the kernel again to kill it when we end: a change of user drops that request.
    who = ("--reuid", _ACCOUNT, "--regid", _ACCOUNT, "--init-groups")
    return ["setpriv", *who, *DIE_WITH_PARENT[1:]]


def reachable(folder: Path) -> Path:
    """A folder that the account can reach. As root we make one; `remove` removes it."""
    if os.getuid() != 0:
        return folder
    path = Path(tempfile.mkdtemp(prefix="fencelock-"))
    path.chmod(0o755)
    shutil.chown(path, _ACCOUNT, _ACCOUNT)
    return path


def remove(folder: Path) -> None:
    """Remove a folder that `reachable` has made."""
    if os.getuid() == 0:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name)
    )
    if found:
        return found[-1]
    return Path(path_of("initdb", PostgresqlServer.package)).parent


def _execute(program: str, *arguments: Setting) -> None:
    run(*as_account(), _binaries() / program, *arguments, package=PostgresqlServer.package)


@cache
def _template() -> Path:
    """A cluster of databases that was never started."""
    folder = reachable(Path(tempfile.gettempdir()) / f"fencelock-{os.getpid()}")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    # md5: the safer scram-sha-256 is slow on purpose, at each connection.
    options = ("--no-sync", "--auth=md5", "--encoding=UTF8", "--locale=C.UTF-8")
    who = (f"--username={USER}", f"--pwfile={secret}")
    _execute("initdb", "-D", folder / "data", *options, *who)
    return folder / "data"
