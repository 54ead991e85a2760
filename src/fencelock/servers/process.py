"""Private server processes: on free loopback ports, with their data in a folder, stopped by pid.

A kind of server is a subclass of `Server` that says how to start it and when it is ready.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from fencelock.core.errors import FencelockError

T = TypeVar("T")

HOST = "127.0.0.1"

PORTS = range(28_000, 31_000)
"""Below the ports that the kernel gives to outgoing connections. A server that is down for a moment must
find its port free again."""

# The kernel kills a server when the thread that started it ends, for whatever reason. So even a program
# that is killed leaves no server behind. The other side of it: a server can't outlive the thread.
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")

START_TIMEOUT = 60.0
"""How long a server may take until it answers, in seconds. Only a stalled machine takes that long."""

Setting = str | int | Path


class ServerFailed(FencelockError):
    """A private server can't be started. The message says what to install, or what its log says."""


class ServerSlow(ServerFailed):
    """A private server did not do in time what it should. The machine may have been busy."""


class Pauses:
    """The pauses between two looks: short at first, because most conditions become true at once.

    When the time is up, `next` raises `error`.
    """

    RESPITE = (
        3  # a pause, as a multiple of the time that the look took: a look can be work for a server
    )

    def __init__(self, timeout: float, what: str, error: type[Exception] = ServerSlow) -> None:
        self._what = what
        self._timeout = timeout
        self._error = error
        self._began = self._looked = time.monotonic()
        self._pause = 0.002

    def next(self) -> float:
        now = time.monotonic()
        if now >= self._began + self._timeout:
            raise self._error(f"waited {self._timeout:g} s in vain for {self._what}")
        pause = max(self._pause, min(self.RESPITE * (now - self._looked), 0.5))
        self._pause = min(1.3 * self._pause, 0.05)
        self._looked = now + pause
        return pause


def wait_until(condition: Callable[[], T], pauses: Pauses) -> T:
    """Poll until the condition is true, and return its value."""
    while not (value := condition()):
        time.sleep(pauses.next())
    return value


def free_port() -> int:
    """Find a free port in `PORTS`."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def spelled_out(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The names of settings with hyphens, as Redis and etcd have them."""
    return {name.replace("_", "-"): value for name, value in settings.items()}


def not_installed(what: str, package: str) -> ServerFailed:
    """The error for a program that is missing, with the Debian package that brings it."""
    hint = f"; on Debian: apt-get install {package}" if package else ""
    return ServerFailed(f"{what} is not installed{hint}")


def path_of(program: str, package: str) -> str:
    """Find a program, also one that only root has on the path. Fails with what to install."""
    found = shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
    if found is None:
        raise not_installed(program, package)
    return found


def run(*words: Setting, package: str, folder: Path | None = None) -> None:
    """Run a program to its end, which must be a good one."""
    command = [path_of(str(words[0]), package), *map(str, words[1:])]
    done = subprocess.run(command, cwd=folder or "/", capture_output=True, text=True, timeout=120)
    if done.returncode:
        said = (done.stdout + done.stderr)[-2000:]
        raise ServerFailed(f"{' '.join(command)} failed:\n{said}")


class Server(ABC):
    """A server process that can be stopped, killed, frozen, and started again on its port.

    `environment` is added to our own at each start.
    """

    package = ""
    """The Debian package that brings the server."""

    def __init__(self, folder: Path, *, environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = dict(environment or {})
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
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the server was started and not stopped since."""
        return self._process is not None

    def ended(self) -> bool:
        """Whether the server was started and has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> Self:
        """Start the server with the data in its folder, and wait until it answers."""
        assert self._process is None, "the server is running already"
        first_time = self.port == 0
        for _ in range(10):  # another process may have taken the port
            if first_time:
                self.choose_ports()
            self.launch()
            if self._comes_up():
                return self
        raise ServerFailed(f"{type(self).__name__} does not start:\n{self.log()}")

    def choose_ports(self) -> None:
        """Choose free ports, before the first start."""
        self.port = free_port()

    def launch(self) -> None:
        """Start the server without waiting until it answers."""
        assert self._process is None, "the server is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [path_of(DIE_WITH_PARENT[0], "util-linux"), *DIE_WITH_PARENT[1:], *self.command()]
        path_of(command[len(DIE_WITH_PARENT)], self.package)
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _comes_up(self) -> bool:
        """Wait until it answers. Returns False if it has ended instead."""
        try:
            wait_until(
                lambda: self.ended() or self.ready(), Pauses(START_TIMEOUT, "the server to answer")
            )
        except ServerSlow as slow:
            self.kill()
            raise ServerSlow(f"{type(self).__name__}: {slow}:\n{self.log()}") from None
        except BaseException:
            self.kill()
            raise
        if self.ended():
            self._process = None
        return self.runs

    @property
    def log_file(self) -> Path:
        return self.folder / "server.log"

    def log(self) -> str:
        """The end of what the server has said."""
        return self.log_file.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Shut the server down as its operator would."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server at once, like a crash. Does nothing when it is not running."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            if not self.ended():
                self._process.send_signal(how)
                self.thaw()  # a frozen process does not receive a SIGTERM
                self._process.wait(timeout=10)
            self._process = None

    def freeze(self) -> None:
        """Freeze the server: connections stay open, and it answers nothing."""
        wait_until(self._is_frozen, Pauses(START_TIMEOUT, "the server to freeze"))

    def _is_frozen(self) -> bool:
        """Look, and stop what still runs: a process may have been started meanwhile."""
        running = [pid for pid in self._pids() if _status(pid)[0] not in "TZ"]
        for pid in running:
            _send(pid, signal.SIGSTOP)
        return not running

    def thaw(self) -> None:
        """Let a frozen server continue."""
        for pid in reversed(self._pids()):
            _send(pid, signal.SIGCONT)

    def _pids(self) -> list[int]:
        """The processes of the server. The first is the one that we have started."""
        return [self.pid]


def children_of(parent: int) -> list[int]:
    """The processes that a process has started."""
    pids = (int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if _status(pid)[1] == str(parent)]


def _send(pid: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, how)


def _status(pid: int) -> list[str]:
    """The state of a process, and its parent; a process that is gone is a zombie without one."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", ""]


class ServerSet(ABC):
    """Several servers that form one service. They run as long as the `with` block.

    Options are those of each server.
    """

    servers: Sequence[Server]
    _kind: type[Server]

    def __init__(self, folder: Path, *, size: int = 3, **options: Any) -> None:
        self.folder = folder
        self.servers = [self._kind(folder / f"server-{n}", **options) for n in range(1, size + 1)]
        self._running = ExitStack()

    @property
    @abstractmethod
    def url(self) -> str: ...

    def _start(self, running: ExitStack) -> None:
        """Start all servers within `running`, and wait until they form one service."""
        for server in self.servers:
            running.enter_context(server)

    def __enter__(self) -> Self:
        with ExitStack() as running:  # if one server does not start, the others are stopped
            self._start(running)
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    @property
    def addresses(self) -> str:
        return ",".join(server.address for server in self.servers)

    def heal(self, timeout: float = 2 * START_TIMEOUT) -> None:
        """Thaw the servers that are frozen, start those that don't run, and wait until all serve."""
        for server in self.servers:
            if server.runs and not server.ended():
                server.thaw()
            else:
                server.kill()
                server.launch()
        if not self._comes_up(timeout):
            raise ServerFailed(f"{type(self).__name__} does not start:\n{self.log()}")

    def serves(self) -> bool:
        """Whether all servers are ready."""
        return all(server.ready() for server in self.servers)

    def _comes_up(self, timeout: float = 2 * START_TIMEOUT) -> bool:
        """Wait until all servers are ready. Returns False if one has ended instead."""
        try:
            wait_until(
                lambda: any(server.ended() for server in self.servers) or self.serves(),
                Pauses(timeout, "the servers to form one service"),
            )
        except ServerSlow as slow:
            raise ServerSlow(f"{type(self).__name__}: {slow}:\n{self.log()}") from None
        return not any(server.ended() for server in self.servers)

    def log(self) -> str:
        """The end of what each server has said."""
        return "\n".join(server.log() for server in self.servers)


class PeerSet(ServerSet):
    """Servers that have to know one another's ports before they start."""

    @abstractmethod
    def _introduce(self) -> None:
        """Tell each server the ports of the others."""

    def _start(self, running: ExitStack) -> None:
        for server in self.servers:
            running.push(server)
        for _ in range(5):  # another process may have taken a port
            for server in self.servers:
                server.kill()
                # The data of an earlier attempt names the ports of that attempt.
                shutil.rmtree(server.folder / "data", ignore_errors=True)
                server.choose_ports()
            self._introduce()
            for server in self.servers:
                server.launch()
            if self._comes_up():
                return
        raise ServerFailed(f"{type(self).__name__} does not start:\n{self.log()}")
