"""The stage of a torture run: worker processes, each behind proxies of its own, and perhaps our servers."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from fencelock.core.errors import FencelockError
from fencelock.io.clock import now
from fencelock.torture.real.addresses import proxied, servers_of
from fencelock.torture.real.journal import Reader
from fencelock.torture.real.own import OwnEngine
from fencelock.torture.real.plan import Plan
from fencelock.torture.real.wire import Wire
from fencelock.torture.real.worker import Job

PROGRAM = "fencelock.torture.real.worker"


class Process(Protocol):
    """What is needed of a started worker."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def kill(self) -> None: ...


Start = Callable[[str, IO[str]], Process]
"""Starts a Python module as a process with this file as its stdin."""


def start_python(program: str, stdin: IO[str]) -> Process:
    """Start a process with the Python that runs us."""
    return subprocess.Popen([sys.executable, "-m", program], stdin=stdin)


_STATE_AFTER = {"held": "holds", "queued": "waits", "release": "", "over": ""}


@dataclass(eq=False)
class Life:
    """One process of a lane, from its start to its end."""

    worker: str
    process: Process
    orders: IO[str]
    journal: Path
    began: float
    ended: float | None = None
    how: str = ""
    """"killed", "ended" or "failed"."""
    state: str = ""
    """What it does with a lock at this moment: "holds", "waits" or nothing."""
    grants: int = 0
    pauses: bool = False
    _reader: Reader | None = field(default=None, repr=False)

    def look(self) -> None:
        """Read what it has done since the last look."""
        if self._reader is None:
            self._reader = Reader(self.journal)
        for line in self._reader.lines():
            if line["what"] == "failed":
                raise FencelockError(f"a worker could not begin: {line['error']}")
            self.grants += line["what"] == "held"
            self.state = _STATE_AFTER.get(line["what"], self.state)


@dataclass(eq=False)
class Lane:
    """One place for a worker. If its process is killed, another one takes the place."""

    name: str
    url: str
    wires: Sequence[Wire]
    lives: list[Life] = field(default_factory=list)

    @property
    def life(self) -> Life:
        """The process that is there now."""
        return self.lives[-1]


class Stage:
    """All that runs. At the end nothing of it does."""

    def __init__(
        self,
        plan: Plan,
        url: str,
        folder: Path,
        own: OwnEngine | None,
        *,
        program: str = PROGRAM,
        start: Start = start_python,
    ) -> None:
        self.plan = plan
        self.url = url
        self.folder = folder
        self.own = own
        self.random = random.Random(plan.seed)
        self.lanes: list[Lane] = []
        self._program = program
        self._start = start
        self._running = ExitStack()

    def __enter__(self) -> Stage:
        with ExitStack() as running:
            for number in range(1, self.plan.processes + 1):
                wires = [
                    running.enter_context(Wire(host, port)) for host, port in servers_of(self.url)
                ]
                url = proxied(self.url, [wire.port for wire in wires]) if wires else self.url
                lane = Lane(f"w{number}", url, wires)
                running.callback(self._clear, lane)
                self.lanes.append(lane)
            for lane in self.lanes:
                self.fill(lane)
            self._running = running.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    # --- workers

    def fill(self, lane: Lane) -> None:
        """Start a process in a lane."""
        plan, number = self.plan, len(lane.lives) + 1
        worker = f"{lane.name}.{number}"
        job = Job(
            worker=worker,
            url=lane.url,
            storage=plan.storage,
            run=plan.run,
            journal=str(self.folder / f"{worker}.journal"),
            names=plan.names,
            primitive=plan.primitive,
            permits=plan.permits,
            ttl=plan.ttl,
            face="sync" if (self.lanes.index(lane) + number) % 2 else "async",
            rest=plan.processes / plan.rate,
            bare=plan.bare,
            seed=f"{plan.seed} {worker}",
            parent=os.getpid() if self._start is start_python else 0,
        )
        reading, writing = os.pipe()
        orders = os.fdopen(writing, "w")
        with os.fdopen(reading) as stdin:
            process = self._start(self._program, stdin)
        life = Life(worker, process, orders, Path(job.journal), now())
        lane.lives.append(life)
        self.order(life, **job._asdict())

    def order(self, life: Life, **what: object) -> None:
        """Send an order to a worker. If it is gone, that will be noticed elsewhere."""
        with suppress(OSError):
            life.orders.write(json.dumps(what) + "\n")
            life.orders.flush()

    def stop(self, life: Life) -> None:
        """Stop a process until `go_on`."""
        os.kill(life.process.pid, signal.SIGSTOP)
        life.pauses = True

    def go_on(self, life: Life) -> None:
        """Let a stopped process go on."""
        if life.pauses:
            os.kill(life.process.pid, signal.SIGCONT)
            life.pauses = False

    def kill(self, life: Life) -> None:
        """Kill a process."""
        life.process.kill()
        life.process.wait()
        self._over(life, "killed")

    def look(self) -> None:
        """Read all journals. A worker that has ended by itself is an error."""
        for lane in self.lanes:
            lane.life.look()
            if lane.life.ended is None and lane.life.process.poll() is not None:
                self._over(lane.life, "failed")
                lane.life.look()  # it may have said why
                raise FencelockError(
                    f"the worker {lane.life.worker} ended by itself: this is a bug"
                )

    def choose(self) -> Lane:
        """Choose a lane for a fault: mostly one that holds a lock, sometimes one that waits."""
        self.look()
        draw = self.random.random()
        wanted = "holds" if draw < 0.75 else "waits" if draw < 0.9 else ""
        lanes = [lane for lane in self.lanes if lane.life.state == wanted]
        return self.random.choice(lanes or self.lanes)

    def dismiss(self) -> None:
        """Tell all workers to end after their turn."""
        for lane in self.lanes:
            with suppress(OSError):
                lane.life.orders.close()

    def all_ended(self) -> bool:
        """Whether all workers have ended by themselves."""
        for lane in self.lanes:
            if lane.life.ended is None and (status := lane.life.process.poll()) is not None:
                self._over(lane.life, "failed" if status else "ended")
        return all(lane.life.ended is not None for lane in self.lanes)

    def _over(self, life: Life, how: str) -> None:
        life.ended, life.how = now(), how
        with suppress(OSError):
            life.orders.close()

    def _clear(self, lane: Lane) -> None:
        for life in lane.lives:
            if life.ended is None:
                life.process.kill()
                life.process.wait()
            with suppress(OSError):
                life.orders.close()
