"""The workers of the benchmark, as the one who starts them sees them."""

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

_LOOK_EVERY = 0.1

_PATIENCE = 60.0
"""Seconds beyond its time after which a silent worker is given up. Generous: the machine may be busy."""

_LAST_WORDS = 15.0
"""Seconds in which those that were told to stop have to do so; they hold a lock while they don't."""


class Crew:
    """Workers that do the same thing at the same time. Use it in a `with`: at its end none is left."""

    def __init__(self, job: Job, size: int) -> None:
        self._job = job
        self._size = size
        self._workers: list[subprocess.Popen[str]] = []
        self.killed = False
        """Whether one had to be killed: what it held is still there."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for worker in self._workers:
                assert worker.stdin is not None
                with contextlib.suppress(OSError):  # it has ended already
                    worker.stdin.close()
            limit = now() + _LAST_WORDS
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
        """What each of them has measured; `tick` is called now and then while they do."""
        for _ in range(self._size):
            self._workers.append(self._hire())
        for worker in self._workers:
            self._hear(worker, tick)
        for worker in self._workers:
            _say(worker, "\n")
        return [Samples.of(self._hear(worker, tick)) for worker in self._workers]

    def _hire(self) -> subprocess.Popen[str]:
        worker = subprocess.Popen(
            [sys.executable, "-m", "fencelock.cli.bench.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("FENCELOCK_DEBUG") else subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        _say(worker, json.dumps(self._job._asdict()) + "\n")
        return worker

    def _hear(self, worker: subprocess.Popen[str], tick: Callable[[], None]) -> dict[str, Any]:
        assert worker.stdout is not None
        limit = now() + self._job.seconds + _PATIENCE
        while not select.select([worker.stdout], [], [], _LOOK_EVERY)[0]:
            tick()
            if now() > limit:
                raise FencelockError(
                    "a process of the benchmark does not answer: is the engine up?"
                )
        line = worker.stdout.readline()
        if not line:
            raise FencelockError(
                f"a process of the benchmark ended by itself, with {worker.wait()} "
                "(FENCELOCK_DEBUG=1 shows why)"
            )
        words: dict[str, Any] = json.loads(line)
        if "error" in words:
            raise FencelockError(words["error"])
        return words


def _say(worker: subprocess.Popen[str], text: str) -> None:
    assert worker.stdin is not None
    with contextlib.suppress(OSError):  # it has ended: whoever listens to it hears of that
        worker.stdin.write(text)
        worker.stdin.flush()


def _await_end(worker: subprocess.Popen[str], limit: float) -> None:
    """Wait for it to end; one that has still something to say can't, unless somebody listens."""
    assert worker.stdout is not None
    pipe = worker.stdout.fileno()
    while (left := limit - now()) > 0:
        if select.select([pipe], [], [], left)[0] and not os.read(pipe, 65536):
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(max(0.0, limit - now()))
