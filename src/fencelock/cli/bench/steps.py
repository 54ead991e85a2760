"""What is measured, one thing after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Protocol

from fencelock.cli.bench.crew import Crew
from fencelock.cli.bench.figures import Figure, in_order, overlaps, passing, simple, waiting
from fencelock.cli.bench.job import Job, Samples
from fencelock.client import Client

STEPS = 8

_PROCESSES = 4
_CONTENDERS = (2, 8)
_TASKS = 100
_LEASES = 1_000
_SESSIONS = 8
"""Tasks or leases where each has a connection of its own: a server has few to give."""

_TTL = 10.0
"""Seconds after which nothing is left of a process that was killed."""

_HELD = 0.001


class Progress(Protocol):
    """Someone who wants to know how far it is."""

    def step(self, what: str, seconds: float) -> None: ...
    def tick(self) -> None: ...


class Bench:
    """Measures an engine, with names that begin with one random prefix. Use it in a `with`."""

    def __init__(self, client: Client, url: str, seconds: float, progress: Progress) -> None:
        self._client = client
        self._url = url
        self._seconds = seconds / STEPS
        self._progress = progress
        self._killed = False
        self.prefix = f"fencelock-bench-{os.urandom(6).hex()}"
        self.overlaps = 0
        """How often two held one lock at once."""

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        if (
            self._killed
        ):  # else they have tidied up, and an engine may have a million names to look through
            for name in self._client.names(f"{self.prefix}*"):
                self._client.break_lock(name)

    def figures(self) -> Iterator[Figure]:
        """One after the other, as they are measured."""
        alone = self._client.traits.leases_expire
        yield simple("look", "look who holds a free name", self._crew("looks"))
        yield simple("pair", "acquire and release a free name", self._crew("pairs"))
        turns = in_order(self._crew("turns", 2, held=_HELD))
        self.overlaps += overlaps(turns)
        if figure := passing("hand-off", "from release to the next process that waits", turns):
            yield figure
        for size in _CONTENDERS:
            turns = in_order(self._crew("turns", size))
            self.overlaps += overlaps(turns)
            yield waiting(f"turns-{size}", f"wait for one's turn, {size} processes", turns)
        crew = self._crew("pairs", _PROCESSES)
        yield simple("processes", f"acquire and release, {_PROCESSES} processes, a name each", crew)
        tasks = _TASKS if alone else _SESSIONS
        crew = self._crew("tasks", width=tasks)
        yield simple("tasks", f"acquire and release, {tasks} asyncio tasks, a name each", crew)
        crew = self._crew("renewals", width=_LEASES if alone else _SESSIONS)
        yield simple("renewals", f"renew {crew[0].each:,} leases of one process", crew)

    def _crew(self, role: str, size: int = 1, width: int = 1, held: float = 0.0) -> list[Samples]:
        ttl = _TTL if self._client.traits.leases_expire else None
        job = Job(role, self._url, f"{self.prefix}:{role}", self._seconds, ttl, width, held)
        self._progress.step(f"{role}, {size} process{'es' * (size > 1)}", self._seconds)
        crew = Crew(job, size)
        try:
            with crew:
                return crew.measure(self._progress.tick)
        finally:
            self._killed |= crew.killed
