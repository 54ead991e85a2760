"""Private MariaDB servers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any

import pymysql

from fencelock.servers.process import HOST, Server, Setting, path_of, run

DATABASE = "locks"


class MysqlServer(Server):
    """One MariaDB. By default it does not flush at commit: it relies on the operating system.

    Settings are those of my.cnf: `MysqlServer(folder, template, max_connections=5)`. `tester` may do
    everything in one database and nothing else; `admin` may do everything. The template, a folder that
    `make_template` has made, saves seconds.
    """

    package = "mariadb-server"
    user = "tester"

    def __init__(
        self,
        folder: Path,
        template: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        **settings: Setting,
    ) -> None:
        super().__init__(folder, environment=environment)
        self.template = template
        self.password = token_hex(8)
        self.data = folder / "data"
        self.settings: dict[str, Setting] = {
            "bind_address": HOST,
            "datadir": self.data,
            "tmpdir": folder,  # in a shared folder, each server that starts deletes the tables of the others
            "socket": folder / "socket",
            "pid_file": folder / "pid",
            "init_file": folder / "init.sql",
            "skip_name_resolve": 1,
            "skip_log_bin": 1,
            "max_connections": 300,
            "performance_schema": "OFF",
            "innodb_flush_log_at_trx_commit": 2,
            "innodb_doublewrite": "OFF",
            "innodb_use_native_aio": "OFF",
            "innodb_buffer_pool_size": "16M",
            "innodb_buffer_pool_load_at_startup": "OFF",
            "innodb_buffer_pool_dump_at_shutdown": "OFF",
            "innodb_log_file_size": "8M",
            "innodb_fast_shutdown": 2,
            **settings,
        }

    def command(self) -> list[str]:
        settings = {**self.settings, "port": self.port}
        words = [path_of("mariadbd", self.package), "--no-defaults", *_as_whom()]
        return words + [f"--{key}={value}" for key, value in settings.items()]

    def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.data.exists():
            if self.template is None:
                make_template(self.folder)
            else:
                run("cp", "-a", self.template, self.data, package=self.package)
        (self.folder / "init.sql").write_text(
            f"CREATE DATABASE IF NOT EXISTS {DATABASE};\n"
            f"CREATE OR REPLACE USER admin IDENTIFIED BY '{self.password}';\n"
            "GRANT ALL ON *.* TO admin WITH GRANT OPTION;\n"
            f"CREATE OR REPLACE USER {self.user} IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL ON {DATABASE}.* TO {self.user};\n"
        )
        super().launch()

    def ready(self) -> bool:
        try:
            # Another server on our port has another password.
            return self.execute("SELECT 1") == [(1,)]
        except pymysql.MySQLError:
            return False

    @property
    def url(self) -> str:
        return self.url_of(self.user, self.password)

    def url_of(self, user: str, password: str, database: str = DATABASE) -> str:
        return f"mysql://{user}:{password}@{self.address}/{database}"

    def connect(self, **options: Any) -> pymysql.Connection[Any]:
        """Make a connection of the administrator."""
        settings = {"database": DATABASE, "autocommit": True, "connect_timeout": 5, **options}
        settings |= {"host": HOST, "port": self.port, "password": self.password}
        # With TLS it would read all certificate authorities of the machine at each connection: 20 ms of work.
        return pymysql.connect(user="admin", ssl_disabled=True, **settings)

    def execute(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement on a new connection."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall())


def make_template(folder: Path) -> Path:
    """A data folder to copy, because making one takes seconds."""
    options = ("--skip-test-db", "--auth-root-authentication-method=normal", "--skip-name-resolve")
    sizes = (
        "--innodb-log-file-size=8M",
        "--innodb-buffer-pool-size=16M",
        "--innodb-use-native-aio=OFF",
    )
    run(
        "mariadb-install-db",
        "--no-defaults",
        "--verbose",
        *_as_whom(),
        f"--datadir={folder / 'data'}",
        f"--tmpdir={folder}",
        *options,
        *sizes,
        package=MysqlServer.package,
        folder=folder,
    )
    return folder / "data"


def _as_whom() -> list[str]:
    """MariaDB runs as root only with this option. Another account might not reach our folder."""
    return ["--user=root"] if os.getuid() == 0 else []
