"""The steps of the benchmark."""

from __future__ import annotations

import os
from collections.abc import Iterator

from fencelock.cli.bench.figures import Figure, durations, hand_offs, overlaps, turns_of, waiting
from fencelock.cli.bench.job import Job, Samples
from fencelock.cli.bench.progress import Progress
from fencelock.cli.bench.workers import Workers
from fencelock.client import Client

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


class Bench:
    """Measures an engine, with names that begin with a random prefix. Use it in a `with`."""

    def __init__(self, client: Client, url: str, seconds: float, progress: Progress) -> None:
        self._client = client
        self._url = url
        self._seconds = seconds / STEPS
        self._progress = progress
        self._killed = False
        self.prefix = f"fencelock-bench-{os.urandom(6).hex()}"
        self.overlaps = 0
        """How often two workers held one lock at once."""

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        # Workers that were not killed have released everything. `names` may be expensive.
        if self._killed:
            for name in self._client.names(f"{self.prefix}*"):
                self._client.break_lock(name)

    def figures(self) -> Iterator[Figure]:
        """Measure one step after the other."""
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
        self._progress.step(f"{role}, {size} process{'es' * (size > 1)}", self._seconds)
        workers = Workers(job, size)
        try:
            with workers:
                return workers.measure(self._progress.tick)
        finally:
            self._killed |= workers.killed
