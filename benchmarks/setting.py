"""What scenarios use: servers, a folder, and the number and length of rounds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, Self, TypeVar

from benchmarks.rounds import Table
from benchmarks.turns import Pace
from tests.servers import RedisServer
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlServer, make_template
from tests.servers_postgresql import PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_zookeeper import Ensemble, SingleServer

T = TypeVar("T")

Scenario = Callable[["Setting"], Iterator[Table]]

SCENARIOS: dict[str, Scenario] = {}


class Missing(Exception):
    """A scenario can't run here, because something is missing on this machine."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    """Register a function as a scenario, with the name for `--only`."""

    def register(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return register


class Setting:
    """One run of the benchmark. All servers that it starts end with it."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self._running = ExitStack()
        self._servers: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.folder = Path(
            self._running.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def _server(self, name: str, make: Callable[[Path], AbstractContextManager[T]]) -> T:
        """A private server, started at its first use."""
        if name not in self._servers:
            try:
                self._servers[name] = self._running.enter_context(make(self.folder / name))
            except Exception as error:
                raise Missing(f"{name} does not start: {error}") from error
        server: T = self._servers[name]
        return server

    @property
    def redis(self) -> RedisServer:
        return self._server("redis", RedisServer)

    @property
    def redlock(self) -> RedlockSet:
        """Five servers."""
        return self._server("redlock", RedlockSet)

    @property
    def etcd(self) -> EtcdCluster:
        """A cluster of one member."""
        return self._server("etcd", lambda folder: EtcdCluster(folder, size=1))

    @property
    def etcds(self) -> EtcdCluster:
        """A cluster of three members."""
        return self._server("etcds", EtcdCluster)

    def etcd_of_each_size(
        self, goals: Mapping[str, float]
    ) -> Iterator[tuple[str, str, Mapping[str, float]]]:
        """Titles, URLs and goals. The goals are for one node; three nodes are what people run."""
        yield "etcd", self.etcd.url, goals
        if not self.quick:
            yield "etcd, three nodes,", self.etcds.url, {}

    @property
    def zookeeper(self) -> SingleServer:
        return self._server("zookeeper", SingleServer)

    @property
    def zookeepers(self) -> Ensemble:
        """An ensemble of three."""
        return self._server("zookeepers", Ensemble)

    def postgresql(self, *, durable: bool) -> PostgresqlServer:
        """With and without fsync."""
        word = "on" if durable else "off"
        return self._server(
            f"postgresql-{word}",
            lambda folder: PostgresqlServer(
                folder,
                fsync=word,
                full_page_writes=word,
                shared_buffers="128MB",
                max_wal_size="1GB",
                track_functions="none",
                max_connections=200,
            ),
        )

    def mysql(self, *, durable: bool) -> MysqlServer:
        """A MariaDB that writes at each commit or not."""

        def make(folder: Path) -> MysqlServer:
            template = self.folder / "mysql-template"
            if not template.exists():
                template.mkdir()
                make_template(template)
            return MysqlServer(
                folder,
                template / "data",
                innodb_flush_log_at_trx_commit=1 if durable else 0,
                innodb_doublewrite="ON" if durable else "OFF",
                innodb_buffer_pool_size="128M",
                innodb_log_file_size="64M",
                max_connections=200,
            )

        return self._server(f"mysql-{'on' if durable else 'off'}", make)

    @property
    def sqlite_url(self) -> str:
        return f"sqlite:///{self.folder}/locks.db"

    def contests(self, seconds: float) -> Iterator[tuple[Pace, int]]:
        """The ways in which processes compete for a lock: with and without work, few and many."""
        for size in (8,) if self.quick else (2, 8, 32):
            for hold in (0.0, 0.001):
                yield Pace(seconds, hold), size

    def unless_quick(self, thing: T) -> T | None:
        return None if self.quick else thing

    def rounds(self, thorough: int, quick: int) -> int:
        return quick if self.quick else thorough

    def seconds(self, thorough: float, quick: float) -> float:
        return quick if self.quick else thorough
