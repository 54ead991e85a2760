"""Runs the demo: starts the workers, stops one holder, kills another, and watches."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from fencelock.cli.channel import Channel
from fencelock.cli.demo.history import Fault, History, State, Worker
from fencelock.client import Client
from fencelock.core.errors import EngineError
from fencelock.core.ticket import Inspection
from fencelock.io.clock import now

if TYPE_CHECKING:
    from fencelock.cli.demo.view import LiveView, PlainView

NAME = "demo"
TTL = 2.0
NAMES = ("ada", "bob", "cleo", "dan", "eve")

_FRAME = 0.1
"""Seconds between two pictures."""
_TIMEOUT = 30.0
"""Seconds after which the demo gives up if nothing happens. Generous, because the machine may be busy."""


class NoProgress(Exception):
    """Something that must happen did not happen."""


class Demo:
    """The running demo. Use it in a `with`: at its end no process is left, whatever happened."""

    def __init__(self, url: str, view: LiveView | PlainView, history: History) -> None:
        self._url = url
        self._view = view
        self._history = history
        self._title = ""
        self._client = Client(url, label="demo")
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

    def run(self, seconds: float) -> Inspection:
        """Run the demo, for about so many seconds. Returns what is left in the queue at its end."""
        history, pause = self._history, seconds / 15
        for name in NAMES:
            self._start(name)
        self._watch_until(
            lambda: all(each.ready for each in history.workers.values()), "the workers"
        )
        self._title = "Taking turns, in order of arrival"
        self._watch(3.0 * pause)

        fault = self._hit_holder("stopped")
        self._title = f"{fault.worker} was stopped while holding: the others wait for its ttl"
        self._watch_until(lambda: fault.next is not None, "the next holder after the stop")
        self._title = f"The others go on; {fault.worker} is still stopped, and its lease is lost"
        self._watch(1.5 * pause)
        self._resume(fault)
        self._watch(1.5 * pause)

        fault = self._hit_holder("killed")
        self._title = f"{fault.worker} was killed while holding: the others wait for its ttl"
        self._watch_until(lambda: fault.next is not None, "the next holder after the kill")
        self._title = "The others go on, and each gets a turn again"
        self._watch_until(lambda: self._all_had_turns_since(fault), "a turn of each worker")
        self._watch(1.0 * pause)
        return self._finish()

    def _finish(self) -> Inspection:
        self._title = "The workers end"
        staying = list(self._history.alive())
        for worker in staying:
            stdin = self._processes[worker.name].stdin
            assert stdin is not None
            stdin.write("stop\n")
            stdin.flush()
        self._watch_until(lambda: all(each.left for each in staying), "the workers' end")
        return self._client.inspect(NAME)

    # --- doing

    def _start(self, name: str) -> None:
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
        self._history.add_worker(name, process.pid)
        channel = Channel(process.stdout.fileno())
        self._selector.register(channel.fd, selectors.EVENT_READ, (name, channel))

    def _hit_holder(self, kind: str) -> Fault:
        """Stop a worker that really is the holder at that moment, and kill it if `kind` is "killed"."""
        hit_before = {fault.worker for fault in self._history.faults}
        while True:
            self._watch_until(lambda: self._history.holder(hit_before) is not None, "a holder")
            worker = self._history.holder(hit_before)
            assert worker is not None
            os.kill(worker.pid, signal.SIGSTOP)
            wait_until_stopped(worker.pid)
            at = now()
            self._receive(0)  # all that it has reported until then
            fence = self._fence_of(worker)
            if fence and worker.state is State.HOLDING:
                break
            os.kill(worker.pid, signal.SIGCONT)  # it was about to release: try the next holder
        if kind == "killed":
            self._processes[worker.name].kill()
            self._processes[worker.name].wait()
        self._history.add_line(
            at, worker.name, f"is {kind} by us (SIG{'KILL' if kind == 'killed' else 'STOP'})"
        )
        return self._history.fault(kind, worker, fence, at)

    def _fence_of(self, worker: Worker) -> int:
        """The fence of the worker's lease, by what the engine says; 0 if it holds none."""
        try:
            holders = self._client.inspect(NAME).holders
        except EngineError:  # the worker was stopped in a transaction, which blocks all others
            return 0
        return next((each.fence for each in holders if each.owner.pid == worker.pid), 0)

    def _resume(self, fault: Fault) -> None:
        worker = self._history.workers[fault.worker]
        at = now()
        self._history.add_line(at, worker.name, "is continued by us (SIGCONT)")
        self._title = f"{worker.name} goes on, and lease.check() tells it that its lease is lost"
        os.kill(worker.pid, signal.SIGCONT)
        self._watch_until(
            lambda: worker.state is not State.STOPPED, "the LeaseLost of the stopped worker"
        )

    def _all_had_turns_since(self, fault: Fault) -> bool:
        served = {turn.worker for turn in self._history.turns if turn.entered > fault.at}
        return all(worker.name in served for worker in self._history.alive())

    # --- watching

    def _watch(self, seconds: float) -> None:
        end = now() + seconds
        while (left := end - now()) > 0:
            self._receive(min(_FRAME, left))
            self._draw()

    def _watch_until(self, condition: Callable[[], bool], what: str) -> None:
        limit = now() + _TIMEOUT
        while not condition():
            if now() > limit:
                raise NoProgress(f"waited {_TIMEOUT:g} s for {what}, which did not come")
            self._receive(_FRAME)
            self._draw()

    def _receive(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            name, channel = key.data
            reports = channel.receive()
            for report in reports or ():
                self._history.record(name, **report)
            if reports is None:
                self._selector.unregister(key.fileobj)
                worker = self._history.workers[name]
                if not worker.left and worker.state is not State.DEAD:
                    raise NoProgress(f"{name} ended by itself")

    def _draw(self) -> None:
        if now() - self._drawn < _FRAME:
            return
        self._drawn = now()
        try:
            seen = self._client.inspect(NAME)
        except EngineError:
            seen = None
        self._view.draw(self._history, seen, self._title)


def wait_until_stopped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
