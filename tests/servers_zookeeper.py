"""ZooKeeper for tests: Debian's package, small heaps, short periods; ensembles of three, and single nodes.

Each node is a `Server` that a test can stop, kill and freeze; see servers.py.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import socket
import ssl
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.servers import HOST, Server, ServerSet, Setting, _make_certificate, free_port
from tests.waiting import InVain, eventually

JARS = Path("/usr/share/java")
CLASSPATH = ":".join(
    str(JARS / f"{name}.jar")
    for name in ("zookeeper", "slf4j-simple", "netty-codec", "netty-resolver")
)
# Each ensemble has three Java machines. They must be small and start quickly.
JAVA = (
    "java",
    "-Xmx96m",
    "-Xms32m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dzookeeper.admin.enableServer=false",
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.4lw.commands.whitelist=*",
)
SETTINGS: dict[str, Setting] = {
    "tickTime": 200,
    "initLimit": 50,
    "syncLimit": 25,
    "minSessionTimeout": 400,
    "maxSessionTimeout": 900_000,
    "maxClientCnxns": 0,
    "preAllocSize": 256,
}


MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


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
        ensemble = Ensemble(Path(folder), size=1)
        ensemble.archive = f"-XX:ArchiveClassesAtExit={fresh}"
        with ensemble:
            ensemble.nodes[0].stop()
    with suppress(FileNotFoundError):  # not every Java can make one
        fresh.rename(path)


class ZooKeeperServer(Server):
    """One node of an ensemble. Settings are those of zoo.cfg."""

    def __init__(self, folder: Path, number: int, *, tls: bool = False) -> None:
        super().__init__(folder)
        self.number = number
        self.tls = tls
        self.secure_port = 0
        self.choose_ports()
        self.settings: dict[str, Setting] = {}
        self.properties: list[str] = []
        self.archive = ""

    def choose_ports(self) -> None:
        if self.port:  # the other nodes know its ports already
            return
        self.port, self.peer_port, self.election_port = free_port(), free_port(), free_port()
        if self.tls:
            self.secure_port = free_port()

    def command(self) -> list[str]:
        config = self.folder / "zoo.cfg"
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "data" / "myid").write_text(str(self.number))
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        archive = self.archive or f"-XX:SharedArchiveFile={_archive()}"
        return [*JAVA, archive, *self.properties, *self._tls(), "-cp", CLASSPATH, MAIN, str(config)]

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
        return True  # a single node can't serve; the ensemble waits for its nodes

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def ended(self) -> bool:
        """Whether the process has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def ask(self, word: str) -> str:
        """Send a four-letter command, and return the answer; empty if the node does not answer."""
        with suppress(OSError), socket.create_connection((HOST, self.port), timeout=5) as link:
            link.sendall(word.encode())
            return b"".join(iter(lambda: link.recv(65_536), b"")).decode()
        return ""

    def role(self) -> str:
        """`leader`, `follower`, or an empty string while the node does not serve."""
        found = [line for line in self.ask("srvr").splitlines() if line.startswith("Mode: ")]
        return found[0].removeprefix("Mode: ") if found else ""

    def serves(self) -> bool:
        """Whether the node answers, also with TLS. The first handshake takes a cold Java machine seconds."""
        if not self.role():
            return False
        if not self.tls:
            return True
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
        super().__init__(folder, 1)
        self.properties = ["-Dzookeeper.forceSync=yes"]  # the last value wins
        self.port = 0  # no other node has to know it before the start

    def command(self) -> list[str]:
        self.settings = {**SETTINGS, "clientPort": self.port, "dataDir": self.folder / "data"}
        return super().command()

    def ready(self) -> bool:
        return self.role() == "standalone"

    @property
    def url(self) -> str:
        return f"zookeeper://{self.address}"


class Ensemble(ServerSet):
    """Nodes that elect a leader. Empty containers are removed every `tidy` seconds."""

    def __init__(
        self,
        folder: Path,
        *,
        size: int = 3,
        tls: bool = False,
        tidy: float = 60,
        **settings: Setting,
    ) -> None:
        super().__init__(folder)
        self.size = size
        self.archive = ""
        self.tls = tls
        self.tidy = tidy
        # A single node is an ensemble, too.
        self.settings: dict[str, Setting] = {**SETTINGS, "standaloneEnabled": "false", **settings}
        self.nodes: list[ZooKeeperServer] = []

    def _start(self, running: ExitStack) -> None:
        for attempt in range(3):  # another process may have taken one of the ports
            with ExitStack() as started:
                self._make_nodes(self.folder / f"attempt-{attempt}")
                for node in self.nodes:
                    started.enter_context(node)
                if self._serves():
                    running.push(started.pop_all())
                    return
        raise AssertionError(f"can't start an ensemble: see the logs in {self.folder}")

    def _make_nodes(self, folder: Path) -> None:
        numbers = range(1, self.size + 1)
        self.nodes = [ZooKeeperServer(folder / f"node-{n}", n, tls=self.tls) for n in numbers]
        members: dict[str, Setting] = {
            f"server.{node.number}": (
                f"{HOST}:{node.peer_port}:{node.election_port};{HOST}:{node.port}"
            )
            for node in self.nodes
        }
        for node in self.nodes:
            node.archive = self.archive
            node.properties = [f"-Dznode.container.checkIntervalMs={int(self.tidy * 1000)}"]
            node.settings = {**self.settings, **members, "dataDir": node.folder / "data"}
            if self.tls:
                node.settings["secureClientPort"] = node.secure_port

    def _serves(self) -> bool:
        """Wait until every node serves. Returns False if one has ended instead."""
        for node in self.nodes:
            eventually(lambda: node.ended() or node.role(), "the ensemble to serve", timeout=120)  # noqa: B023
        return not any(node.ended() for node in self.nodes)

    def mend(self) -> None:
        """Repair what a test has done: thaw, start, and wait until every node serves."""
        for node in self.nodes:
            if node.runs and not node.ended():
                node.thaw()
            else:
                node.kill()
                node.start()
        for _ in range(3):
            try:
                self.wait(20)
                return
            except InVain:  # they may never elect a leader again, so restart all of them
                for node in self.nodes:
                    node.kill()
                for node in self.nodes:
                    node.start()
        self.wait(30)

    def wait(self, timeout: float = 100) -> None:
        """Wait until every node that runs also serves. One timeout is for all of them."""
        until = time.monotonic() + timeout
        for node in self.nodes:
            if node.runs:
                eventually(node.serves, "the ensemble to serve", until - time.monotonic())
        if sum(node.runs for node in self.nodes) > self.size // 2:
            eventually(self._commits, "the ensemble to commit", until - time.monotonic())

    def _commits(self) -> bool:
        """Whether a session can be made: an ensemble that was frozen may answer, and not commit."""
        client = KazooClient(self.hosts)
        try:
            client.start(timeout=5)
        except KazooTimeoutError:
            return False
        finally:
            client.stop()
            client.close()
        return True

    @property
    def hosts(self) -> str:
        return ",".join(node.address for node in self.nodes)

    @property
    def url(self) -> str:
        return f"zookeeper://{self.hosts}"

    def leader(self) -> ZooKeeperServer:
        return self._with("leader")

    def follower(self) -> ZooKeeperServer:
        return self._with("follower")

    def _with(self, role: str) -> ZooKeeperServer:
        found = eventually(
            lambda: [node for node in self.nodes if node.role() == role], f"a {role}", timeout=60
        )
        return found[0]
