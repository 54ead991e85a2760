"""Servers that all workers of a test run share. Three Java machines per worker would be too much work.

The parent process of the workers starts a server when a worker first asks for it, and stops it when the run
is over. If that process is killed, its servers die with it.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path

from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlServer, make_template
from tests.servers_postgresql import PostgresqlServer
from tests.servers_zookeeper import Ensemble

Place = Callable[[str], str]
"""Maps the name of a worker to a URL: a place in the server that no other worker uses."""


class SharedServers:
    """Listens at `address` and starts servers on request, until it is closed."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fencelock-shared-"))
        self.address = str(self._folder / "asked")
        self._places: dict[str, Place] = {}
        self._running = ExitStack()
        self._listener = Listener(self.address)
        # One thread starts all servers, because a server dies with the thread that started it.
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop all servers."""
        with Client(self.address) as link:
            link.send(None)
        self._thread.join()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answer(self) -> None:
        with self._running, self._listener:
            while True:
                # The worker may be killed before it receives the answer.
                with suppress(OSError, EOFError), self._listener.accept() as link:
                    asked = link.recv()
                    if asked is None:
                        return
                    try:
                        link.send((True, self._place(*asked)))
                    except Exception as error:
                        link.send((False, f"{type(error).__name__}: {error}"))

    def _place(self, kind: str, worker: str) -> str:
        if kind not in self._places:
            start: Callable[[Path], Place] = getattr(self, f"_start_{kind}")
            folder = self._folder / kind
            folder.mkdir(exist_ok=True)
            self._places[kind] = start(folder)
        return self._places[kind](worker)

    def _start_etcd(self, folder: Path) -> Place:
        # No test stops its members, so they don't need short heartbeats.
        cluster = self._running.enter_context(
            EtcdCluster(folder, heartbeat_interval=1000, election_timeout=5000)
        )
        return lambda worker: cluster.url  # no separate places: names are unique in all tests

    def _start_zookeeper(self, folder: Path) -> Place:
        ensemble = self._running.enter_context(Ensemble(folder, tickTime=1000))
        return lambda worker: f"{ensemble.url}/{worker}"

    def _start_postgresql(self, folder: Path) -> Place:
        server = self._running.enter_context(PostgresqlServer(folder, max_connections=500))

        def place(worker: str) -> str:
            server.execute(f"CREATE DATABASE {worker}")
            return server.url_of(server.user, server.password, worker)

        return place

    def _start_mysql(self, folder: Path) -> Place:
        template = Path(self._place("mysql_template", ""))
        server = self._running.enter_context(MysqlServer(folder, template, max_connections=1000))

        def place(worker: str) -> str:
            server.execute(f"CREATE DATABASE {worker}")
            server.execute(f"GRANT ALL ON {worker}.* TO {server.user}")
            return server.url_of(server.user, server.password, worker)

        return place

    def _start_mysql_template(self, folder: Path) -> Place:
        template = make_template(folder)
        return lambda worker: str(template)


def ask(address: str, kind: str, worker: str) -> str:
    """Return the URL of the worker's place in the shared server of this kind. Call it once."""
    with Client(address) as link:
        link.send((kind, worker))
        done, answer = link.recv()
    assert done, f"no shared {kind}: {answer}"
    return str(answer)
