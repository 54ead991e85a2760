"""ZooKeeper for tests: that of `fencelock.servers`, with TLS and witnesses; and single nodes."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import socket
import ssl
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

import fencelock.servers.zookeeper
from fencelock.servers.zookeeper import CLASSPATH, SETTINGS
from tests.servers import HOST, _make_certificate, free_port
from tests.waiting import eventually

__all__ = ["SETTINGS"]


@cache
def _archive() -> Path:
    """An archive of ZooKeeper's loaded classes. With it, a node starts with half the work.

    A node that has run for a moment makes it, once per environment. Java ignores an archive that does not
    fit.
    """
    java = Path(shutil.which("java") or "java").resolve()
    made_of = [(path, path.stat().st_mtime_ns) for path in (java, *map(Path, CLASSPATH.split(":")))]
    name = hashlib.sha256(repr(made_of).encode()).hexdigest()[:12]
    path = Path(sys.prefix) / f"zookeeper-{name}.jsa"
    if not path.exists():
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _make_archive(path)
    return path


def _make_archive(path: Path) -> None:
    fresh = path.with_suffix(".new")
    with tempfile.TemporaryDirectory() as folder:
        archive = f"-XX:ArchiveClassesAtExit={fresh}"
        with Ensemble(Path(folder), size=1, archive=archive) as ensemble:
            ensemble.nodes[0].stop()
    with suppress(FileNotFoundError):  # not every Java can make one
        fresh.rename(path)


class ZooKeeperServer(fencelock.servers.zookeeper.ZooKeeperServer):
    """As the package's node, and with TLS. It removes empty containers every `tidy` seconds."""

    def __init__(
        self,
        folder: Path,
        *,
        tls: bool = False,
        tidy: float = 60,
        archive: str = "",
        **options: Any,
    ) -> None:
        super().__init__(folder, **options)
        self.tls = tls
        self.secure_port = 0
        self.properties = [
            archive or f"-XX:SharedArchiveFile={_archive()}",
            f"-Dznode.container.checkIntervalMs={int(tidy * 1000)}",
            *self._tls(),
        ]

    def choose_ports(self) -> None:
        super().choose_ports()
        if self.tls:
            self.secure_port = self.settings["secureClientPort"] = free_port()

    def _tls(self) -> list[str]:
        if not self.tls:
            return []
        return [
            "-Dzookeeper.serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            f"-Dzookeeper.ssl.keyStore.location={self.certificate}",
            "-Dzookeeper.ssl.keyStore.type=PEM",
            f"-Dzookeeper.ssl.trustStore.location={self.certificate}",
            "-Dzookeeper.ssl.trustStore.type=PEM",
            "-Dzookeeper.ssl.clientAuth=want",
        ]

    @property
    def certificate(self) -> Path:
        """The self-signed certificate (and key) of a TLS server. Clients use it as their CA."""
        path = self.folder / "server.pem"
        if not path.exists():
            _make_certificate(path)
        return path

    def ready(self) -> bool:
        """Whether the node answers, also with TLS. The first handshake takes a cold Java machine seconds."""
        answers = super().ready()
        if not (answers and self.tls):
            return answers
        context = ssl.create_default_context(cafile=self.certificate)
        context.check_hostname = False
        with suppress(OSError), socket.create_connection((HOST, self.secure_port), 30) as link:
            context.wrap_socket(link).close()
            return True
        return False

    def figures(self) -> dict[str, int]:
        """The counters of the node: packets, watches, znodes, sessions."""
        lines = [line.split("\t") for line in self.ask("mntr").splitlines()]
        return {
            line[0].removeprefix("zk_"): int(float(line[1]))
            for line in lines
            if len(line) == 2 and line[1].replace(".", "").replace("-", "").isdigit()
        }


class SingleServer(ZooKeeperServer):
    """A node that is not part of an ensemble. Unlike those, it flushes what it writes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, standaloneEnabled="true")
        self.properties.append("-Dzookeeper.forceSync=yes")  # the last value wins

    def choose_ports(self) -> None:
        super().choose_ports()
        self.settings["clientPort"] = self.port

    @property
    def url(self) -> str:
        return f"zookeeper://{self.address}"


class Ensemble(fencelock.servers.zookeeper.Ensemble):
    """As the package's ensemble, and a witness that it commits."""

    servers: Sequence[ZooKeeperServer]
    _kind = ZooKeeperServer

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        self.nodes = self.servers

    def mend(self) -> None:
        """Repair what a test has done: thaw, start, and wait until every node serves."""
        self.heal()

    def serves(self) -> bool:
        return super().serves() and self._commits()

    def wait(self, timeout: float = 100) -> None:
        """Wait until every node that runs also serves. One timeout is for all of them."""
        until = time.monotonic() + timeout
        for node in self.nodes:
            if node.runs:
                eventually(node.ready, "the ensemble to serve", until - time.monotonic())
        if sum(node.runs for node in self.nodes) > len(self.nodes) // 2:
            eventually(self._commits, "the ensemble to commit", until - time.monotonic())

    def _commits(self) -> bool:
        """Whether a session can be made: an ensemble that was frozen may answer, and not commit."""
        client = KazooClient(self.addresses)
        try:
            client.start(timeout=5)
        except KazooTimeoutError:
            return False
        finally:
            client.stop()
            client.close()
        return True

    def leader(self) -> ZooKeeperServer:
        return self._with("leader")

    def follower(self) -> ZooKeeperServer:
        return self._with("follower")

    def _with(self, role: str) -> ZooKeeperServer:
        found = eventually(
            lambda: [node for node in self.nodes if node.role() == role], f"a {role}", timeout=60
        )
        return found[0]
