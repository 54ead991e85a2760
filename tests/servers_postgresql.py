"""PostgreSQL for tests: private, in a temporary folder, on a free loopback port, stopped by pid."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol, Self

import psutil
import psycopg

from tests.servers import DIE_WITH_PARENT, HOST, Server, Setting
from tests.waiting import eventually

_ACCOUNT = "postgres"
"""The account that runs the server if the tests run as root: PostgreSQL refuses to run as root."""


USER = "tester"


def _binaries() -> Path:
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name)
    )
    if found:
        return found[-1]
    where = shutil.which("initdb")
    assert where, "install PostgreSQL's server"
    return Path(where).parent


PASSWORD = token_hex(8)
"""The password of all servers that this process starts, and of no others."""


@cache
def _template() -> Path:
    """A cluster of databases that was never started."""
    folder = _reachable(Path(tempfile.gettempdir()) / f"fencelock-{os.getpid()}")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    folder.mkdir(exist_ok=True)
    secret = folder / "password"
    secret.write_text(PASSWORD)
    # md5: the safer scram-sha-256 is slow on purpose, at each connection.
    options = ("--no-sync", "--auth=md5", "--encoding=UTF8", "--locale=C.UTF-8")
    who = (f"--username={USER}", f"--pwfile={secret}")
    _execute(str(_binaries() / "initdb"), "-D", str(folder / "data"), *options, *who)
    return folder / "data"


class PostgresqlServer(Server):
    """One PostgreSQL, with durability switched off unless the settings say otherwise.

    Settings are those of postgresql.conf: `PostgresqlServer(folder, fsync="on")`.
    """

    user = USER

    def __init__(self, folder: Path, **settings: Setting) -> None:
        super().__init__(_reachable(folder))
        folder = self.folder
        self.password = PASSWORD
        self.data = folder / "data"
        self.settings: dict[str, Setting] = {
            "listen_addresses": HOST,
            "unix_socket_directories": folder,
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
        words = [*_as_account(), str(_binaries() / "postgres"), "-D", str(self.data)]
        for name, value in {**self.settings, "port": self.port}.items():
            words += ["-c", f"{name}={value}"]
        return words

    def start(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            self._make()
        return super().start()

    def _make(self) -> None:
        """Make a new cluster of databases, as a copy, because making one from scratch takes long."""
        _execute("cp", "-a", str(_template()), str(self.data))

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the account that runs the server."""
        _execute(str(_binaries() / program), *arguments)

    def ready(self) -> bool:
        try:
            with self.connect() as connection:
                # Another server on our port has another password.
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        return self.url_of(self.user, self.password)

    def url_of(self, user: str, password: str, database: str = "postgres") -> str:
        return f"postgresql://{user}:{password}@{self.address}/{database}"

    def connect(self, **options: Any) -> psycopg.Connection[tuple[Any, ...]]:
        """Make a connection with another library, as an independent witness."""
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
        _remove(self.folder)

    def stop(self) -> None:
        """Shut it down without waiting for its clients to leave ("fast")."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Crash: all of its processes end at once."""
        processes, segment = self._processes(), self._segment()
        super().kill()  # first the process that would start the others again
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=10)
        if segment:
            subprocess.run(["ipcrm", "-m", segment], check=False, capture_output=True)

    def _segment(self) -> str:
        """The id of the few bytes of shared memory that a killed server leaves behind."""
        try:
            _, segment = (self.data / "postmaster.pid").read_text().splitlines()[6].split()
        except (OSError, IndexError, ValueError):
            return ""
        return segment

    def freeze(self) -> None:
        """Freeze all of its processes: connections stay open, and it answers nothing."""
        super().freeze()
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        for process in self._processes():
            with suppress(psutil.NoSuchProcess):
                process.resume()
        super().thaw()

    def _processes(self) -> list[psutil.Process]:
        if self._process is None:
            return []
        try:
            return psutil.Process(self.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []


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
        super().__init__(_reachable(folder))
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
        return [*_as_account(), "/usr/sbin/pgbouncer", str(self.folder / "pgbouncer.ini")]

    def __exit__(self, *_: object) -> None:
        self.kill()
        _remove(self.folder)

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


def _reachable(folder: Path) -> Path:
    """A folder that the account can reach. It can't reach pytest's own folders."""
    if os.getuid() != 0:
        return folder
    path = Path(tempfile.mkdtemp(prefix="fencelock-"))
    path.chmod(0o755)
    shutil.chown(path, _ACCOUNT, _ACCOUNT)
    return path


def _remove(folder: Path) -> None:
    if os.getuid() == 0:
        shutil.rmtree(folder, ignore_errors=True)


def _execute(*command: str) -> None:
    """Run a program as the account that runs the server, and check that it succeeds."""
    done = subprocess.run(
        [*_as_account(), *command], cwd="/", capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def _as_account() -> list[str]:
    if os.getuid() != 0:
        return []
    # Ask the kernel again to kill it when we end: a change of user drops that request.
    who = ("--reuid", _ACCOUNT, "--regid", _ACCOUNT, "--init-groups")
    return ["setpriv", *who, *DIE_WITH_PARENT[1:]]
