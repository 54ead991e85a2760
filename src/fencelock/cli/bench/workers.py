"""Starts the workers of the benchmark, and collects what they measure."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Self

from fencelock.cli.bench.job import Job, Samples
from fencelock.core.errors import FencelockError
from fencelock.io.clock import now

_TICK_EVERY = 0.1
"""Seconds between two calls of `tick`."""

_ANSWER_SLACK = 60.0
"""Seconds that a worker may answer late. Generous, because the machine may be busy."""

_STOP_TIMEOUT = 15.0
"""Seconds in which a worker must stop when it is told to. Until then it may hold a lock."""


class Workers:
    """Workers that do the same job at the same time. Use it in a `with`: at its end no worker is left."""

    def __init__(self, job: Job, size: int) -> None:
        self._job = job
        self._size = size
        self._workers: list[subprocess.Popen[str]] = []
        self.killed = False
        """Whether a worker had to be killed: its locks are still there."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for worker in self._workers:
                assert worker.stdin is not None
                with contextlib.suppress(OSError):  # it has ended already
                    worker.stdin.close()
            limit = now() + _STOP_TIMEOUT
            for worker in self._workers:
                _await_end(worker, limit)
        finally:
            for worker in self._workers:
                self.killed |= worker.poll() is None
                worker.kill()
                worker.wait()
                assert worker.stdout is not None
                worker.stdout.close()

    def measure(self, tick: Callable[[], None]) -> list[Samples]:
        """Let the workers measure, and return what each has measured. Calls `tick` now and then."""
        for _ in range(self._size):
            self._workers.append(self._start())
        for worker in self._workers:
            self._receive(worker, tick)
        for worker in self._workers:
            _send(worker, "\n")
        return [Samples(**self._receive(worker, tick)) for worker in self._workers]

    def _start(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fencelock.cli.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("FENCELOCK_DEBUG") else subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        _send(worker, json.dumps(self._job._asdict()) + "\n")
        return worker

    def _receive(self, worker: subprocess.Popen[str], tick: Callable[[], None]) -> dict[str, Any]:
        assert worker.stdout is not None
        limit = now() + self._job.seconds + _ANSWER_SLACK
        while not select.select([worker.stdout], [], [], _TICK_EVERY)[0]:
            tick()
            if now() > limit:
                raise FencelockError(
                    "a process of the benchmark does not answer: is the engine up?"
                )
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


def _send(worker: subprocess.Popen[str], text: str) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(OSError):  # it has ended: `_receive` will notice
        worker.stdin.write(text)
        worker.stdin.flush()


def _await_end(worker: subprocess.Popen[str], limit: float) -> None:
    """Wait for the end of a worker. Reads its output, because a full pipe would block it."""
    assert worker.stdout is not None
    pipe = worker.stdout.fileno()
    while (left := limit - now()) > 0:
        if select.select([pipe], [], [], left)[0] and not os.read(pipe, 65536):
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(max(0.0, limit - now()))
