"""Cheap processes for tests: forked from a process that has imported everything and done nothing else.

    Spawned("tests.child", "sync", url)      as subprocess.Popen([sys.executable, "-m", "tests.child", …])

To start Python and import a client is 130 ms of work; to fork a process that has done so is 15 ms. Don't use
these processes to test how a program starts, ends or gets signals from a terminal.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parent.parent
NUMBER = struct.Struct("!i")
LARGEST_REQUEST = 200_000

IMPORTED = (
    "asyncio", "logging", "random", "secrets", "sqlite3", "ssl", "urllib.request", "uuid",
    "apsw", "asyncmy", "grpc", "hiredis", "kazoo.client", "psycopg", "pymysql", "redis",
    "click", "fencelock.cli.main", "fencelock.guards", "fencelock.io.asyncio",
    "fencelock.engines.etcd", "fencelock.engines.http", "fencelock.engines.memory",
    "fencelock.engines.mysql", "fencelock.engines.postgresql", "fencelock.engines.redis",
    "fencelock.engines.redlock", "fencelock.engines.sqlite", "fencelock.engines.zookeeper",
)  # fmt: skip


class Spawned:
    """A process that runs one of our modules. `stdin`, `stdout` and `stderr` are open files of its parent."""

    def __init__(
        self,
        program: str,
        *arguments: str,
        stdin: IO[Any] | None = None,
        stdout: IO[Any] | int = 1,
        stderr: IO[Any] | int = 2,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.returncode: int | None = None
        words = json.dumps([program, arguments, dict(environment)]).encode()
        assert len(words) < LARGEST_REQUEST
        self._report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull) as nothing:
            ends = [stdin or nothing, stdout, stderr, theirs]
            fds = [end if isinstance(end, int) else end.fileno() for end in ends]
            socket.send_fds(_nursery(), [words], fds)
        self.pid: int = self._receive()

    def _receive(self) -> int:
        (number,) = NUMBER.unpack(self._report.recv(NUMBER.size))
        return int(number)

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._report], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = self._receive()
            self._report.close()
        return self.returncode

    def kill(self) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def run(
    program: str, *arguments: str, input: str = "", environment: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end, as subprocess.run() does."""
    with (
        tempfile.TemporaryFile("w+") as stdin,
        tempfile.TemporaryFile("w+") as stdout,
        tempfile.TemporaryFile("w+") as stderr,
    ):
        stdin.write(input)
        stdin.seek(0)
        files: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
        process = Spawned(program, *arguments, **files, environment=environment)
        try:
            status = process.wait(60)
        finally:
            process.kill()
            process.wait()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, status, stdout.read(), stderr.read())


@cache
def _nursery() -> socket.socket:
    """The process that all others are forked from. Each worker of a test run has one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        fd = theirs.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spawning", str(fd)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            pass_fds=[fd],
        )

    def end() -> None:
        ours.close()  # this tells it to end
        process.wait()

    atexit.register(end)
    return ours


# --- the process itself


def serve(control: socket.socket) -> tuple[Any, list[int]] | None:
    """Fork on request until there are no more requests. In a fork, return what the fork must run."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), reading], [], [])
        if reading in ready:
            os.read(reading, 4096)
            _report_the_ended(running)
        if control.fileno() in ready:
            words, fds, _, _ = socket.recv_fds(control, LARGEST_REQUEST, 4)
            if not words:
                return None
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                for fd in (reading, writing, fds.pop(), *running.values()):
                    os.close(fd)
                return json.loads(words), fds
            *theirs, running[pid] = fds
            for fd in theirs:
                os.close(fd)
            os.write(running[pid], NUMBER.pack(pid))


def _report_the_ended(running: dict[int, int]) -> None:
    for pid in list(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            report = running.pop(pid)
            with suppress(BrokenPipeError):
                os.write(report, NUMBER.pack(os.waitstatus_to_exitcode(status)))
            os.close(report)


def become(request: tuple[str, list[str], dict[str, str]], fds: list[int]) -> None:
    program, arguments, environment = request
    for number, fd in enumerate(fds):
        os.dup2(fd, number)
        os.close(fd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = arguments
    status: Any = 0
    try:
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    # End as any Python does, but without freeing the memory: to free every object is more work than all
    # the rest.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # the module has closed it already
            stream.flush()
    os._exit(status)


def main() -> None:
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # the collector does not touch these objects, so forks don't copy them
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked:
        become(*asked)


if __name__ == "__main__":
    main()
