"""What a worker of the benchmark is told, and what it answers: one line of JSON each."""

from __future__ import annotations

from typing import Any, NamedTuple


class Job(NamedTuple):
    """What to measure."""

    role: str
    url: str
    """Told by stdin: other users of the machine could see a password in the arguments of a process."""
    name: str
    seconds: float
    ttl: float | None
    """None on engines that have none."""
    width: int = 1
    """How many tasks, or how many leases at most."""
    held: float = 0.0
    """Seconds for which each turn holds the lock."""


class Samples(NamedTuple):
    """What a worker has measured; all in seconds, on the clock that all processes share."""

    began: list[float]
    ended: list[float]
    released: list[float]
    """For turns: when each gave the lock back. They ended their waiting when they had it."""
    each: int = 1
    """What one sample stands for: so many renewals went along in one request."""

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Samples:
        return cls(**answer)

    @property
    def spans(self) -> list[float]:
        """How long each took."""
        return [end - begin for begin, end in zip(self.began, self.ended, strict=True)]
