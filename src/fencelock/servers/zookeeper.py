"""Private ZooKeeper ensembles: Debian's package, small heaps, short periods."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fencelock.servers.process import (
    HOST,
    START_TIMEOUT,
    PeerSet,
    Server,
    ServerSlow,
    Setting,
    free_port,
    not_installed,
)

_JARS = [
    Path(f"/usr/share/java/{name}.jar")
    for name in ("zookeeper", "slf4j-simple", "netty-codec", "netty-resolver")
]
CLASSPATH = ":".join(map(str, _JARS))
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
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
SETTINGS: dict[str, Setting] = {
    "tickTime": 200,
    "initLimit": 50,
    "syncLimit": 25,
    "minSessionTimeout": 400,
    "maxSessionTimeout": 900_000,
    "maxClientCnxns": 0,
    "preAllocSize": 256,
}


class ZooKeeperServer(Server):
    """One node of an ensemble. Settings are those of zoo.cfg.

    It is ready when a majority runs: `start` waits for that, `launch` does not.
    """

    package = "zookeeper"

    def __init__(
        self, folder: Path, *, environment: Mapping[str, str] | None = None, **settings: Setting
    ) -> None:
        super().__init__(folder, environment=environment)
        self.number = 1
        self.peer_port = 0
        self.election_port = 0
        self.settings: dict[str, Setting] = {
            **SETTINGS,
            "standaloneEnabled": "false",  # a single node is an ensemble, too
            "dataDir": folder / "data",
            **settings,
        }
        self.properties: list[str] = []
        """More options of Java."""

    def choose_ports(self) -> None:
        self.port, self.peer_port, self.election_port = free_port(), free_port(), free_port()

    @property
    def peer(self) -> str:
        return f"{HOST}:{self.peer_port}:{self.election_port};{HOST}:{self.port}"

    def command(self) -> list[str]:
        for jar in _JARS:
            if not jar.exists():
                raise not_installed(str(jar), self.package)
        config, data = self.folder / "zoo.cfg", self.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(str(self.number))
        config.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        return [*JAVA, *self.properties, "-cp", CLASSPATH, MAIN, str(config)]

    def ready(self) -> bool:
        return bool(self.role())

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


class Ensemble(PeerSet):
    """Nodes that elect a leader."""

    servers: Sequence[ZooKeeperServer]
    _kind: type[ZooKeeperServer] = ZooKeeperServer

    @property
    def url(self) -> str:
        return f"zookeeper://{self.addresses}"

    def _introduce(self) -> None:
        for number, server in enumerate(self.servers, 1):
            server.number = number
        peers = {f"server.{server.number}": server.peer for server in self.servers}
        for server in self.servers:
            server.settings |= peers

    def heal(self, timeout: float = 2 * START_TIMEOUT) -> None:
        for _ in range(3):
            try:
                return super().heal(20)
            except ServerSlow:  # they may never elect a leader again, so restart all of them
                for server in self.servers:
                    server.kill()
        return super().heal(timeout)
