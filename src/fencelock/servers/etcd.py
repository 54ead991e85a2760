"""Private etcd clusters. A member answers at `/health` whether it takes part."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from fencelock.servers.process import HOST, PeerSet, Server, Setting, free_port, spelled_out

HEARTBEAT_MS, ELECTION_MS = 50, 500
"""Half of etcd's defaults, to save time."""


class EtcdServer(Server):
    """One member of a cluster. Settings are etcd's flags: `auth_token="simple"`.

    It is ready when a majority runs: `start` waits for that, `launch` does not.
    """

    package = "etcd-server"
    scheme = "http"

    def __init__(
        self, folder: Path, *, environment: Mapping[str, str] | None = None, **settings: Setting
    ) -> None:
        super().__init__(folder, environment=environment)
        self.member = folder.name
        self.peer_port = 0
        self.metrics_port = 0
        self.cluster = ""
        self.settings: dict[str, Setting] = {
            "name": self.member,
            "data-dir": folder / "data",
            "heartbeat-interval": HEARTBEAT_MS,
            "election-timeout": ELECTION_MS,
            "logger": "zap",
            "log-level": "error",
            **spelled_out(settings),
        }

    @property
    def peer(self) -> str:
        return f"{self.member}=http://{HOST}:{self.peer_port}"

    def choose_ports(self) -> None:
        self.port, self.peer_port, self.metrics_port = free_port(), free_port(), free_port()

    def command(self) -> list[str]:
        client, peer = f"{self.scheme}://{self.address}", f"http://{HOST}:{self.peer_port}"
        flags = {
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "listen-metrics-urls": f"http://{HOST}:{self.metrics_port}",
            "initial-cluster": self.cluster,
            **self.settings,
        }
        return ["etcd", *(f"--{name}={value}" for name, value in flags.items())]

    def ready(self) -> bool:
        try:
            return bool(json.loads(self._fetch("/health"))["health"] == "true")
        except (OSError, ValueError):
            return False

    def _fetch(self, path: str) -> str:
        url = f"http://{HOST}:{self.metrics_port}{path}"
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bytes(answer.read()).decode()


class EtcdCluster(PeerSet):
    """Members that elect a leader."""

    servers: Sequence[EtcdServer]
    _kind: type[EtcdServer] = EtcdServer

    @property
    def url(self) -> str:
        return f"etcd://{self.addresses}"

    def _introduce(self) -> None:
        for server in self.servers:
            server.cluster = ",".join(each.peer for each in self.servers)
