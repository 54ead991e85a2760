"""The director of the demo: starts the workers, stops one, kills another, and watches."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import IO, Protocol, Self

from fencelock.cli.demo.scene import Doing, Fault, Scene, Worker
from fencelock.client import Client
from fencelock.core.errors import EngineError
from fencelock.core.ticket import Inspection
from fencelock.io.clock import now

NAME = "demo"
TTL = 2.0
NAMES = ("ada", "bob", "cleo", "dan", "eve")

_FRAME = 0.1
_PATIENCE = 30.0
"""Seconds after which a demo that makes no progress gives up. Generous: the machine may be busy."""


class View(Protocol):
    """Someone to show it to."""

    def draw(self, scene: Scene, seen: Inspection | None, title: str) -> None: ...


class NoProgress(Exception):
    """Something that must happen did not."""


class Director:
    """Runs the play. Use it in a `with`: at its end no process is left, whatever happened."""

    def __init__(self, url: str, view: View, scene: Scene) -> None:
        self._url = url
        self._view = view
        self._scene = scene
        self._title = ""
        self._client = Client(url, label="director")
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._drawn = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.communicate()
        self._selector.close()
        self._client.close()

    def play(self, seconds: float) -> Inspection:
        """The whole play, in about so many seconds; what was left in the queue at its end."""
        scene, pause = self._scene, seconds / 15
        for name in NAMES:
            self._hire(name)
        self._watch_until(lambda: all(each.ready for each in scene.workers.values()), "the workers")
        self._title = "Taking turns, in order of arrival"
        self._watch(3.0 * pause)

        victim = self._strike("stopped")
        self._title = f"{victim.worker} was stopped while holding: the others wait for its ttl"
        self._watch_until(lambda: victim.next is not None, "the next holder after the stop")
        self._title = f"The lock went on; {victim.worker} is still stopped and knows nothing of it"
        self._watch(1.5 * pause)
        self._awaken(victim)
        self._watch(1.5 * pause)

        victim = self._strike("killed")
        self._title = (
            f"{victim.worker} was killed with -9 while holding: the others wait for its ttl"
        )
        self._watch_until(lambda: victim.next is not None, "the next holder after the kill")
        self._title = "The lock went on; everyone else gets a turn again"
        self._watch_until(lambda: self._all_had_turns_since(victim), "everybody's turn")
        self._watch(1.0 * pause)
        return self._finish()

    def _finish(self) -> Inspection:
        self._title = "The workers leave"
        staying = list(self._scene.alive())
        for worker in staying:
            _tell(self._processes[worker.name].stdin, "stop")
        self._watch_until(lambda: all(each.left for each in staying), "the workers' end")
        return self._client.inspect(NAME)

    # --- doing

    def _hire(self, name: str) -> None:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "fencelock.cli.demo.worker"),
                *(self._url, NAME, name, str(TTL), str(os.getpid())),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        assert process.stdout is not None
        self._processes[name] = process
        self._scene.hire(name, process.pid)
        self._selector.register(
            process.stdout, selectors.EVENT_READ, _Journal(process.stdout, name)
        )

    def _strike(self, kind: str) -> Fault:
        """Stop the holder, and make sure that it really is the holder; kill it if asked."""
        spared = {fault.worker for fault in self._scene.faults}  # nobody is struck twice
        while True:
            self._watch_until(lambda: self._scene.holder(spared) is not None, "a holder")
            worker = self._scene.holder(spared)
            assert worker is not None
            os.kill(worker.pid, signal.SIGSTOP)
            wait_until_stopped(worker.pid)
            at = now()
            self._listen(0)  # all that it has written until then
            fence = self._fence_of(worker)
            if fence and worker.doing is Doing.HOLDING:
                break
            os.kill(worker.pid, signal.SIGCONT)  # it was just about to leave: try the next one
        if kind == "killed":
            self._processes[worker.name].kill()
            self._processes[worker.name].wait()
        self._scene.tell(
            at, worker.name, f"is {kind} by us (SIG{'KILL' if kind == 'killed' else 'STOP'})"
        )
        return self._scene.struck(kind, worker, fence, at)

    def _fence_of(self, worker: Worker) -> int:
        """The fence of the lease that the worker holds by what the engine says; 0 if it holds none."""
        try:
            holders = self._client.inspect(NAME).holders
        except EngineError:  # stopped in the middle of a transaction, so that nobody gets through
            return 0
        return next((each.fence for each in holders if each.owner.pid == worker.pid), 0)

    def _awaken(self, victim: Fault) -> None:
        worker = self._scene.workers[victim.worker]
        at = now()
        self._scene.tell(at, worker.name, "is continued by us (SIGCONT)")
        self._title = f"{worker.name} wakes up, and lease.check() tells it before it can do harm"
        os.kill(worker.pid, signal.SIGCONT)
        self._watch_until(lambda: worker.doing is not Doing.STOPPED, "the end of its illusion")

    def _all_had_turns_since(self, fault: Fault) -> bool:
        lucky = {turn.worker for turn in self._scene.turns if turn.entered > fault.at}
        return all(worker.name in lucky for worker in self._scene.alive())

    # --- watching

    def _watch(self, seconds: float) -> None:
        end = now() + seconds
        while (left := end - now()) > 0:
            self._listen(min(_FRAME, left))
            self._draw()

    def _watch_until(self, condition: Callable[[], bool], what: str) -> None:
        limit = now() + _PATIENCE
        while not condition():
            if now() > limit:
                raise NoProgress(f"waited {_PATIENCE:g} s in vain for {what}")
            self._listen(_FRAME)
            self._draw()

    def _listen(self, patience: float) -> None:
        for key, _ in self._selector.select(patience):
            journal: _Journal = key.data
            lines = journal.read()
            if lines is None:
                self._ended(key.fileobj, journal.name)
                continue
            for line in lines:
                self._scene.take_in(journal.name, **json.loads(line))

    def _ended(self, stream: object, name: str) -> None:
        self._selector.unregister(stream)  # type: ignore[arg-type]  # it is what we registered
        worker = self._scene.workers[name]
        if not worker.left and worker.doing is not Doing.DEAD:
            raise NoProgress(f"{name} ended by itself")

    def _draw(self) -> None:
        if now() - self._drawn < _FRAME:
            return
        self._drawn = now()
        try:
            seen = self._client.inspect(NAME)
        except EngineError:
            seen = None
        self._view.draw(self._scene, seen, self._title)


class _Journal:
    """Lines of a worker's journal as they come in."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self.name = name
        self._fd = stream.fileno()
        self._rest = b""

    def read(self) -> list[bytes] | None:
        """The lines that are there now; None at the end."""
        data = os.read(self._fd, 65536)
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


def _tell(stream: IO[str] | None, word: str) -> None:
    assert stream is not None
    stream.write(f"{word}\n")
    stream.flush()


def wait_until_stopped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
