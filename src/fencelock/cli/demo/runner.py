"""Runs the demo: starts the workers, stops one holder, kills another, and watches."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

from fencelock.cli.channel import Channel
from fencelock.cli.demo.history import History, State, Worker
from fencelock.cli.demo.worker import NAME
from fencelock.client import Client
from fencelock.core.errors import EngineError
from fencelock.core.ticket import Inspection
from fencelock.io.clock import now

NAMES = ("ada", "bob", "cleo", "dan", "eve")

TIMEOUT = 30.0
"""Seconds after which the demo gives up if nothing happens. Generous, because the machine may be busy."""

_FRAME = 0.1
"""Seconds between two pictures."""

Draw = Callable[[Inspection, str], object]
"""Shows the state of the lock under a title."""


class NoProgress(Exception):
    """Something that must happen did not happen."""


class Demo:
    """The running demo."""

    def __init__(self, url: str, history: History, draw: Draw) -> None:
        self._url = url
        self._history = history
        self._draw = draw
        self._title = "The workers start"
        self._client = Client(url, label="demo")
        self._selector = selectors.DefaultSelector()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._drawn = 0.0

    def run(self, seconds: float) -> Inspection:
        """Run the demo, for about so many seconds. Returns what is left in the queue at its end.

        Whatever happens, no process is left.
        """
        history, pause = self._history, seconds / 15
        with self._client, self._selector, ExitStack() as processes:
            for name in NAMES:
                self._start(name, processes)
            workers = history.workers.values()
            self._watch_until(
                lambda: all(each.state is not State.STARTING for each in workers), "the workers"
            )
            self._title = "Taking turns, in order of arrival"
            self._watch(3.0 * pause)

            stopped = self._hit_holder("stopped")
            self._title = (
                f"The others go on; {stopped.name} is still stopped, and its lease is lost"
            )
            self._watch(1.5 * pause)
            history.add_line(now(), stopped.name, "is continued by us (SIGCONT)")
            self._title = (
                f"{stopped.name} goes on, and lease.check() tells it that its lease is lost"
            )
            os.kill(stopped.pid, signal.SIGCONT)
            self._watch_until(lambda: stopped.state is not State.STOPPED, "its LeaseLost")
            self._watch(1.5 * pause)

            self._hit_holder("killed")
            self._title = "The others go on, and each gets a turn again"
            self._watch_until(lambda: not history.starving(), "a turn of each worker")
            self._watch(1.0 * pause)

            self._title = "The workers end"
            staying = history.alive()
            for worker in staying:
                stdin = self._processes[worker.name].stdin
                assert stdin is not None
                stdin.close()
            self._watch_until(
                lambda: all(each.state is State.ENDED for each in staying), "the workers' end"
            )
            return self._client.inspect(NAME)

    # --- doing

    def _start(self, name: str, processes: ExitStack) -> None:
        process = processes.enter_context(
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "fencelock.cli.demo.worker"),
                    *(self._url, name, str(os.getpid())),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        processes.callback(process.kill)
        assert process.stdout is not None
        self._processes[name] = process
        self._history.workers[name] = Worker(name, process.pid)
        channel = Channel(process.stdout.fileno())
        self._selector.register(channel.fd, selectors.EVENT_READ, (name, channel))

    def _hit_holder(self, kind: str) -> Worker:
        """Stop a worker that really is the holder at that moment, and kill it if `kind` is "killed".

        Returns it when another worker has got the lock.
        """
        history = self._history
        hit_before = {turn.worker for turn in history.faults()}

        def candidates() -> list[Worker]:
            workers = history.workers.values()
            holding = (each for each in workers if each.state is State.HOLDING)
            return [each for each in holding if each.name not in hit_before]

        while True:
            self._watch_until(candidates, "a holder")
            worker = candidates()[0]
            os.kill(worker.pid, signal.SIGSTOP)
            wait_until_stopped(worker.pid)
            at = now()
            self._receive(0)  # all that it has reported until then
            holders = self._inspect().holders
            fences = [each.fence for each in holders if each.owner.pid == worker.pid]
            if fences and worker.state is State.HOLDING:
                break
            os.kill(worker.pid, signal.SIGCONT)  # it was about to release: try the next holder
        if kind == "killed":
            self._processes[worker.name].kill()
            self._processes[worker.name].wait()
        turn = history.hit(kind, worker, fences[0], at)
        self._title = f"{worker.name} was {kind} while holding: the others wait for its ttl"
        self._watch_until(lambda: history.next_after(turn), f"a holder after one was {kind}")
        return worker

    def _inspect(self) -> Inspection:
        try:
            return self._client.inspect(NAME)
        except EngineError:  # a worker was stopped in a transaction, which blocks all others
            return Inspection(NAME, (), (), waiting=0, fence=0, abandoned=False)

    # --- watching

    def _watch(self, seconds: float) -> None:
        end = now() + seconds
        while (left := end - now()) > 0:
            self._show(min(_FRAME, left))

    def _watch_until(self, condition: Callable[[], object], what: str) -> None:
        limit = now() + TIMEOUT
        while not condition():
            if now() > limit:
                raise NoProgress(f"waited {TIMEOUT:g} s for {what}, which did not come")
            self._show(_FRAME)

    def _show(self, timeout: float) -> None:
        """Wait for reports, and draw the next picture if it is time for it."""
        self._receive(timeout)
        if now() - self._drawn >= _FRAME:
            self._drawn = now()
            self._draw(self._inspect(), self._title)

    def _receive(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            name, channel = key.data
            reports = channel.receive()
            for report in reports or ():
                self._history.record(name, **report)
            if reports is None:
                self._selector.unregister(key.fileobj)
                if self._history.workers[name].state not in (State.ENDED, State.DEAD):
                    raise NoProgress(f"{name} ended by itself")


def wait_until_stopped(pid: int) -> None:
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
