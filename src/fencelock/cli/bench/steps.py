"""The steps of the benchmark. In each step, workers do the same job at the same time."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from fencelock.cli.bench.figures import Figure, durations, hand_offs, overlaps, turns_of, waiting
from fencelock.cli.bench.worker import Job, Samples
from fencelock.client import Client
from fencelock.core.errors import FencelockError
from fencelock.io.clock import now

STEPS = 8

_PROCESSES = 4
_CONTENDERS = (2, 8)
_TASKS = 100
_LEASES = 1_000
_SESSIONS = 8
"""How many tasks or leases, if each needs a connection of its own: servers limit connections."""

_TTL = 10.0
"""Seconds. The leases of a killed process end after this time."""

_HELD = 0.001
"""How long a turn holds the lock when hand-offs are measured, in seconds."""

_SHOW_EVERY = 0.1
"""Seconds between two calls of `show` in a step."""

_ANSWER_SLACK = 60.0
"""Seconds that a worker may answer late. Generous, because the machine may be busy."""

_STOP_TIMEOUT = 15.0
"""Seconds in which a worker must stop when it is told to. Until then it may hold a lock."""

Show = Callable[[str, int, float], object]
"""Shows the step, its number, and which part of it has passed: 0 when it begins."""

_Worker = subprocess.Popen[str]


class Bench:
    """Measures an engine, with names that begin with a random prefix."""

    def __init__(self, client: Client, url: str, seconds: float, show: Show) -> None:
        self._client = client
        self._url = url
        self._seconds = seconds / STEPS
        self._show = show
        self._step = -1
        self._killed = False
        """Whether a worker had to be killed: its locks are still there."""
        self.prefix = f"fencelock-bench-{os.urandom(6).hex()}"
        self.overlaps = 0
        """How often two workers held one lock at once."""

    def run(self) -> dict[str, Figure]:
        """Measure one step after the other. Whatever happens, no worker and no lock is left."""
        try:
            return {each.key: each for each in self._figures()}
        finally:
            # Workers that were not killed have released everything. `names` may be expensive.
            if self._killed:
                for name in self._client.names(f"{self.prefix}*"):
                    self._client.break_lock(name)

    def _figures(self) -> Iterator[Figure]:
        many = self._client.traits.leases_expire
        yield durations("look", "ask who holds a free name", self._measure("looks"))
        yield durations("pair", "acquire and release a free name", self._measure("pairs"))
        turns = turns_of(self._measure("turns", 2, held=_HELD))
        self.overlaps += overlaps(turns)
        if figure := hand_offs("hand-off", "from release to the next process that waits", turns):
            yield figure
        for size in _CONTENDERS:
            turns = turns_of(self._measure("turns", size))
            self.overlaps += overlaps(turns)
            yield waiting(f"turns-{size}", f"wait for the lock, {size} processes", turns)
        samples = self._measure("pairs", _PROCESSES)
        yield durations(
            "processes", f"acquire and release, {_PROCESSES} processes, a name each", samples
        )
        tasks = _TASKS if many else _SESSIONS
        samples = self._measure("tasks", width=tasks)
        yield durations(
            "tasks", f"acquire and release, {tasks} asyncio tasks, a name each", samples
        )
        samples = self._measure("renewals", width=_LEASES if many else _SESSIONS)
        yield durations("renewals", f"renew {samples[0].each:,} leases of one process", samples)

    def _measure(
        self, role: str, size: int = 1, width: int = 1, held: float = 0.0
    ) -> list[Samples]:
        ttl = _TTL if self._client.traits.leases_expire else None
        job = Job(role, self._url, f"{self.prefix}:{role}", self._seconds, ttl, width, held)
        what = f"{role}, {size} process{'es' * (size > 1)}"
        began = now()
        self._step += 1
        self._show(what, self._step, 0.0)

        def show() -> None:
            self._show(what, self._step, min(1.0, (now() - began) / self._seconds))

        workers: list[_Worker] = []
        try:
            for _ in range(size):
                workers.append(_start(job))
            limit = self._seconds + _ANSWER_SLACK
            for worker in workers:
                _receive(worker, limit, show)
            for worker in workers:
                _send(worker, "\n")
            return [Samples(**_receive(worker, limit, show)) for worker in workers]
        finally:
            self._stop(workers)

    def _stop(self, workers: list[_Worker]) -> None:
        """Tell the workers to stop, all at once. Kill those that do not stop in time."""
        try:
            for worker in workers:
                stdin, worker.stdin = worker.stdin, None
                assert stdin is not None
                with suppress(OSError):  # it has ended already
                    stdin.close()
            limit = now() + _STOP_TIMEOUT
            for worker in workers:
                with suppress(subprocess.TimeoutExpired):
                    worker.communicate(timeout=max(0.0, limit - now()))
        finally:
            for worker in workers:
                self._killed |= worker.poll() is None
                with worker:
                    worker.kill()


def _start(job: Job) -> _Worker:
    worker = subprocess.Popen(
        [sys.executable, "-m", "fencelock.cli.bench.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if os.environ.get("FENCELOCK_DEBUG") else subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    _send(worker, json.dumps(job._asdict()) + "\n")
    return worker


def _send(worker: _Worker, text: str) -> None:
    assert worker.stdin is not None
    with suppress(OSError):  # it has ended: `_receive` will notice
        worker.stdin.write(text)
        worker.stdin.flush()


def _receive(worker: _Worker, timeout: float, show: Callable[[], None]) -> dict[str, Any]:
    assert worker.stdout is not None
    limit = now() + timeout
    while not select.select([worker.stdout], [], [], _SHOW_EVERY)[0]:
        show()
        if now() > limit:
            raise FencelockError("a process of the benchmark does not answer: is the engine up?")
    line = worker.stdout.readline()
    if not line:
        raise FencelockError(
            f"a process of the benchmark ended by itself, with exit code {worker.wait()} "
            "(FENCELOCK_DEBUG=1 shows why)"
        )
    message: dict[str, Any] = json.loads(line)
    if "error" in message:
        raise FencelockError(message["error"])
    return message
