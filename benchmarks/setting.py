"""What scenarios get: servers, a folder, and how much time to take."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from benchmarks.rounds import Table
from tests.servers import RedisServer
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlServer, make_template
from tests.servers_postgresql import PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_zookeeper import Ensemble

Scenario = Callable[["Setting"], Iterator[Table]]

SCENARIOS: dict[str, Scenario] = {}


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Make a function a scenario, under the name that `--only` takes."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return register


class Setting:
    """One run. What it starts ends with it."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self._running = ExitStack()
        self._redis: RedisServer | None = None
        self._etcd: EtcdCluster | None = None
        self._redlock: RedlockSet | None = None
        self._zookeeper: Ensemble | None = None
        self._mysql: dict[bool, MysqlServer] = {}
        self._postgresql: dict[bool, PostgresqlServer] = {}

    def __enter__(self) -> Self:
        self.folder = Path(
            self._running.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def redis(self) -> RedisServer:
        """A private server, started when first needed."""
        if self._redis is None:
            self._redis = self._running.enter_context(RedisServer(self.folder / "redis"))
        return self._redis

    @property
    def redlock(self) -> RedlockSet:
        """Five private servers, started when first needed."""
        if self._redlock is None:
            self._redlock = self._running.enter_context(RedlockSet(self.folder / "redlock"))
        return self._redlock

    def postgresql(self, *, durable: bool) -> PostgresqlServer:
        """A private server, started when first needed, with and without fsync."""
        if durable not in self._postgresql:
            word = "on" if durable else "off"
            server = PostgresqlServer(
                self.folder / f"postgresql-{word}",
                fsync=word,
                full_page_writes=word,
                shared_buffers="128MB",
                max_wal_size="1GB",
                track_functions="none",
                max_connections=200,
            )
            self._postgresql[durable] = self._running.enter_context(server)
        return self._postgresql[durable]

    def mysql(self, *, durable: bool) -> MysqlServer:
        """A private MariaDB, started when first needed, that writes at each commit or not."""
        if durable not in self._mysql:
            template = self.folder / "mysql-template"
            if not template.exists():
                template.mkdir()
                make_template(template)
            self._mysql[durable] = self._running.enter_context(
                MysqlServer(
                    self.folder / f"mysql-{durable}",
                    template / "data",
                    innodb_flush_log_at_trx_commit=1 if durable else 0,
                    innodb_doublewrite="ON" if durable else "OFF",
                    innodb_buffer_pool_size="128M",
                    innodb_log_file_size="64M",
                    max_connections=200,
                )
            )
        return self._mysql[durable]

    @property
    def etcd(self) -> EtcdCluster:
        """A private cluster of three, started when first needed."""
        if self._etcd is None:
            self._etcd = self._running.enter_context(EtcdCluster(self.folder / "etcd"))
        return self._etcd

    @property
    def zookeeper(self) -> Ensemble:
        """A private ensemble of three, started when first needed."""
        if self._zookeeper is None:
            self._zookeeper = self._running.enter_context(Ensemble(self.folder / "zookeeper"))
        return self._zookeeper

    @property
    def sqlite_url(self) -> str:
        return f"sqlite:///{self.folder}/locks.db"

    def rounds(self, thorough: int, quick: int) -> int:
        return quick if self.quick else thorough

    def seconds(self, thorough: float, quick: float) -> float:
        return quick if self.quick else thorough
