"""The job of a worker of the benchmark, and its answer: one line of JSON each."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """What a worker measures."""

    role: str
    url: str
    """Sent by stdin: other users of the machine can see a password in the arguments of a process."""
    name: str
    seconds: float
    ttl: float | None
    """None for engines without a ttl."""
    width: int = 1
    """How many tasks, or the maximum number of leases."""
    held: float = 0.0
    """How long each turn holds the lock, in seconds."""


class Samples(NamedTuple):
    """What a worker has measured: moments in seconds, on the clock that all processes share."""

    began: list[float]
    ended: list[float]
    released: list[float]
    """For turns: when the worker released the lock. There, `ended` is when it got the lock."""
    each: int = 1
    """How many renewals one sample stands for: they are one request."""

    @property
    def durations(self) -> list[float]:
        """How long each sample took."""
        return [end - begin for begin, end in zip(self.began, self.ended, strict=True)]
