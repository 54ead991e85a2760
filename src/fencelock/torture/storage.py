"""The storage that the locks protect: counters behind a guard that checks fences, over a slow network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fencelock.io.simulated import SimulatedIO, World
from fencelock.torture.records import Write

T = TypeVar("T")


@dataclass(slots=True)
class _Row:
    value: int = 0
    fence: int = 0
    id: str = ""


class GuardedCounters:
    """One counter for each name. A write with an older fence than the newest is refused.

    The network to the storage loses nothing but can be slow. So a write may arrive long after its sender
    has lost the lock: this is the case that fences exist for.
    """

    def __init__(self, world: World, *, delay: float, late: float, lateness: float) -> None:
        self._world = world
        self._rows: dict[str, _Row] = {}
        self._delay = delay
        self._late = late
        self._lateness = lateness
        self.writes: list[Write] = []

    def calm(self) -> None:
        """Answer quickly from now on."""
        self._late = 0.0

    def value(self, name: str) -> int:
        """The stored value."""
        return self._row(name).value

    async def read(self, io: SimulatedIO, name: str) -> int:
        """The counter's value. Reading needs no fence."""
        return await self._ask(io, lambda: self._row(name).value)

    async def raise_fence(self, io: SimulatedIO, name: str, fence: int, id: str) -> bool:
        """The read barrier: refuse older fences from now on. Returns False if this fence is older itself."""
        return await self._ask(io, lambda: self.admit(self._row(name), fence, id))

    async def write(self, io: SimulatedIO, name: str, fence: int, id: str, value: int) -> bool:
        """Store a value if the fence is not too old. The check and the write are one step."""

        def action() -> bool:
            row = self._row(name)
            accepted = self.admit(row, fence, id)
            write = Write(name, fence, id, value, row.value, accepted)
            self.writes.append(write)
            if accepted:
                row.value = value
            what = f"{write.replaced} -> {value}" if accepted else f"{value} refused"
            self._world.log("storage", f"{name}: {what} (fence {fence} of {io.name})")
            return accepted

        return await self._ask(io, action)

    def admit(self, row: _Row, fence: int, id: str) -> bool:
        """The guard's rule: greater than the newest fence, or equal from the same holder."""
        if fence < row.fence or (fence == row.fence and id != row.id):
            return False
        row.fence, row.id = fence, id
        return True

    def _row(self, name: str) -> _Row:
        return self._rows.setdefault(name, _Row())

    async def _ask(self, io: SimulatedIO, action: Callable[[], T]) -> T:
        random = self._world.random
        delay = self._delay * (0.2 + random.expovariate(1.0))
        if random.random() < self._late:
            delay += random.random() * self._lateness
        done = io.event()
        answers: list[T] = []

        def arrive() -> None:
            answers.append(action())
            self._world.after(self._delay * random.random(), done.set)

        self._world.after(delay, arrive)
        await done.wait()
        return answers[0]
