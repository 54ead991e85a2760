"""Real etcd clusters for tests: those of `fencelock.servers`, with TLS, metrics and etcdctl."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import fencelock.servers.etcd
from tests.servers import _make_certificate
from tests.waiting import eventually


def make_certificate(folder: Path) -> None:
    """A key and its certificate in one file, and the certificate alone, which etcd requires."""
    certificate, authority = certificates(folder)
    _make_certificate(certificate)
    text = certificate.read_text()
    authority.write_text(text[text.index("-----BEGIN CERTIFICATE") :])


def certificates(folder: Path) -> tuple[Path, Path]:
    return folder / "certificate.pem", folder / "authority.pem"


def etcdctl(addresses: str, *words: str) -> Any:
    """Run etcdctl, as an operator would, and return its output."""
    command = ["etcdctl", f"--endpoints={addresses}", *words, "-w=json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return json.loads(done.stdout) if done.stdout.startswith(("{", "[")) else done.stdout


class EtcdServer(fencelock.servers.etcd.EtcdServer):
    """As the package's member, and with TLS and metrics."""

    def __init__(self, folder: Path, *, tls: bool = False, **options: Any) -> None:
        super().__init__(folder, **options)
        if tls:
            certificate, authority = certificates(folder.parent)
            self.scheme = "https"
            self.settings |= {
                "cert-file": certificate,
                "key-file": certificate,
                "trusted-ca-file": authority,
                "client-cert-auth": "true",
            }

    def metrics(self) -> dict[str, float]:
        """Its metrics, by name; metrics with labels by name and labels."""
        lines = (line for line in self._fetch("/metrics").splitlines() if not line.startswith("#"))
        pairs = (line.rpartition(" ") for line in lines)
        return {name: float(value) for name, _, value in pairs}


class EtcdCluster(fencelock.servers.etcd.EtcdCluster):
    """As the package's cluster. `ctl` runs etcdctl."""

    servers: Sequence[EtcdServer]
    _kind = EtcdServer

    def __init__(self, folder: Path, *, tls: bool = False, **options: Any) -> None:
        super().__init__(folder, tls=tls, **options)
        self.members = self.servers
        self.tls = tls
        self.login = ""

    @property
    def url(self) -> str:
        return f"{'etcds' if self.tls else 'etcd'}://{self.addresses}"

    def _start(self, running: ExitStack) -> None:
        if self.tls:
            make_certificate(self.folder)
        super()._start(running)

    def ctl(self, *words: str) -> Any:
        """Run etcdctl, and return what it says."""
        certificate, authority = certificates(self.folder)
        tls = [f"--cacert={authority}", f"--cert={certificate}", f"--key={certificate}"]
        login = [f"--user={self.login}"] if self.login else []
        return etcdctl(self.addresses, *(tls if self.tls else ()), *login, *words)

    def leader(self) -> EtcdServer | None:
        """The member that all running members call the leader; None while there is none."""
        leaders = []
        for member in self.members:
            if member.runs:
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
