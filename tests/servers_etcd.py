"""Real etcd clusters for tests: private, on free loopback ports, in temporary folders, stopped by pid."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.servers import DIE_WITH_PARENT, HOST, Server, ServerSet, _make_certificate, free_port
from tests.waiting import eventually

HEARTBEAT_MS, ELECTION_MS = 50, 500
"""Half of etcd's defaults, to save time in tests."""


def make_certificate(folder: Path) -> None:
    """A key and its certificate in one file, and the certificate alone, which etcd requires."""
    _make_certificate(folder / "certificate.pem")
    text = (folder / "certificate.pem").read_text()
    (folder / "authority.pem").write_text(text[text.index("-----BEGIN CERTIFICATE") :])


def etcdctl(addresses: str, *words: str) -> Any:
    """Run etcdctl, as an operator would, and return its output."""
    command = ["etcdctl", f"--endpoints={addresses}", *words, "-w=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout


class EtcdServer(Server):
    """One member of a cluster. Settings are etcd's flags: `auth_token="simple"`."""

    def __init__(self, folder: Path, member: str, *, tls: bool, **settings: str | int) -> None:
        super().__init__(folder)
        self.member = member
        self.tls = tls
        self.peer_port = 0
        self.metrics_port = 0
        self.cluster = ""
        self.settings = settings

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def peer(self) -> str:
        return f"{self.member}=http://{HOST}:{self.peer_port}"

    @property
    def certificate(self) -> Path:
        return self.folder.parent / "certificate.pem"

    def choose_ports(self) -> None:
        self.port, self.peer_port, self.metrics_port = free_port(), free_port(), free_port()

    def command(self) -> list[str]:
        client = f"{'https' if self.tls else 'http'}://{self.address}"
        peer = f"http://{HOST}:{self.peer_port}"
        flags: dict[str, str | int | Path] = {
            "name": self.member,
            "data-dir": self.folder / "data",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "listen-metrics-urls": f"http://{HOST}:{self.metrics_port}",
            "initial-cluster": self.cluster,
            "heartbeat-interval": HEARTBEAT_MS,
            "election-timeout": ELECTION_MS,
            "logger": "zap",
            "log-level": "error",
            **self.settings,
        }
        if self.tls:
            flags |= {
                "cert-file": self.certificate,
                "key-file": self.certificate,
                "trusted-ca-file": self.certificate.with_name("authority.pem"),
                "client-cert-auth": "true",
            }
        return ["etcd", *(f"--{name.replace('_', '-')}={value}" for name, value in flags.items())]

    def launch(self) -> None:
        """Start without waiting: a member is ready only when a majority runs."""
        assert self._process is None, "the server is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def ready(self) -> bool:
        try:
            return bool(json.loads(self._fetch("/health"))["health"] == "true")
        except (OSError, ValueError):
            return False

    def metrics(self) -> dict[str, float]:
        """Its metrics, by name; metrics with labels by name and labels."""
        lines = (line for line in self._fetch("/metrics").splitlines() if not line.startswith("#"))
        pairs = (line.rpartition(" ") for line in lines)
        return {name: float(value) for name, _, value in pairs}

    def _fetch(self, path: str) -> str:
        url = f"http://{HOST}:{self.metrics_port}{path}"
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bytes(answer.read()).decode()


class EtcdCluster(ServerSet):
    """Three members. `ctl` runs etcdctl."""

    def __init__(
        self, folder: Path, *, size: int = 3, tls: bool = False, **settings: str | int
    ) -> None:
        super().__init__(folder)
        self.tls = tls
        self.login = ""
        self.members = [
            EtcdServer(folder / f"member-{n}", f"m{n}", tls=tls, **settings) for n in range(size)
        ]

    @property
    def url(self) -> str:
        return f"{'etcds' if self.tls else 'etcd'}://{self.addresses}"

    @property
    def addresses(self) -> str:
        return ",".join(member.address for member in self.members)

    def _start(self, running: ExitStack) -> None:
        if self.tls:
            self.folder.mkdir(parents=True, exist_ok=True)
            make_certificate(self.folder)
        for _ in range(5):  # another process may have taken a port
            for member in self.members:
                member.choose_ports()
                # The data of an earlier attempt names the ports of that attempt.
                shutil.rmtree(member.folder / "data", ignore_errors=True)
            for member in self.members:
                member.cluster = ",".join(each.peer for each in self.members)
                member.launch()
                running.callback(member.kill)
            if self._up():
                return
            for member in self.members:
                member.kill()
        raise AssertionError(f"can't start etcd:\n{self.members[0].log()}")

    def _up(self) -> bool:
        processes = [member._process for member in self.members]
        eventually(
            lambda: (
                any(process is None or process.poll() is not None for process in processes)
                or all(member.ready() for member in self.members)
            ),
            "the cluster to form",
            timeout=30,
        )
        return all(process is not None and process.poll() is None for process in processes)

    def restart(self, member: EtcdServer) -> None:
        """Start a member that was killed, and wait until it takes part."""
        member.launch()
        eventually(member.ready, "the member to come back")

    def ctl(self, *words: str) -> Any:
        """Run etcdctl, and return what it says."""
        certificate, authority = self.folder / "certificate.pem", self.folder / "authority.pem"
        tls = [f"--cacert={authority}", f"--cert={certificate}", f"--key={certificate}"]
        login = [f"--user={self.login}"] if self.login else []
        return etcdctl(self.addresses, *(tls if self.tls else ()), *login, *words)

    def leader(self) -> EtcdServer | None:
        """The member that all running members call the leader; None while there is none."""
        leaders = []
        for member in self.members:
            if member._process is not None:
                try:
                    if member.metrics()["etcd_server_is_leader"] == 1:
                        leaders.append(member)
                except OSError:
                    continue
        return leaders[0] if len(leaders) == 1 else None

    def followers(self) -> list[EtcdServer]:
        leader = eventually(self.leader, "a leader")
        return [member for member in self.members if member is not leader]

    def total(self, metric: str) -> float:
        """The sum of a counter over all members."""
        return sum(
            value
            for member in self.members
            for name, value in member.metrics().items()
            if name == metric
        )

    @contextmanager
    def frozen(self, member: EtcdServer) -> Iterator[None]:
        member.freeze()
        try:
            yield
        finally:
            member.thaw()
