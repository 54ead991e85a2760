"""What has happened so far in the demo, from the reports of the workers, and whether every invariant held."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any

from fencelock.core.ticket import Inspection


class State(Enum):
    """What a worker is doing."""

    STARTING = "starting"
    RESTING = "resting"
    WAITING = "waiting"
    HOLDING = "holding"
    STOPPED = "stopped"
    DEAD = "dead"
    ENDED = "ended"


_STATE_AFTER = {
    "ready": State.RESTING,
    "asks": State.WAITING,
    "enters": State.HOLDING,
    "leaves": State.RESTING,
    "lost": State.RESTING,
    "ends": State.ENDED,
}


@dataclass(slots=True)
class Turn:
    """One turn of one worker. The times are those of `fencelock.io.clock`, the same for all processes."""

    worker: str
    fence: int
    asked: float
    entered: float
    abandoned: bool
    """Whether the previous holder did not release the lock."""
    valid_until: float | None = None
    """The last moment at which the worker knew that it held the lock; None if it still holds it."""
    lost_at: float | None = None
    """When `lease.check()` or `release()` raised `LeaseLost`."""
    fault: str = ""
    """What we did to the holder: "stopped" or "killed"."""
    fault_at: float = math.inf

    @property
    def waited(self) -> float:
        return self.entered - self.asked


@dataclass(slots=True)
class Worker:
    """One worker."""

    name: str
    pid: int
    states: list[tuple[float, State]] = field(default_factory=lambda: [(0.0, State.STARTING)])
    """Each state, with the moment at which it began."""

    @property
    def state(self) -> State:
        return self.states[-1][1]

    def state_at(self, at: float) -> State:
        """The state at a moment."""
        return next(state for since, state in reversed(self.states) if since <= at)


class History:
    """All workers and their turns so far."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.workers: dict[str, Worker] = {}
        self.turns: list[Turn] = []
        self.log: list[tuple[float, str, str, bool]] = []
        """Seconds since the start, the worker, what happened, and whether to print it in bold."""

    def add_line(self, at: float, who: str, what: str, *, bold: bool = True) -> None:
        """Add a line to the log."""
        self.log.append((at - self.started, who, what, bold))

    def record(self, who: str, event: str, at: float, **details: Any) -> None:
        """Record a report of a worker."""
        worker = self.workers[who]
        if event == "enters":
            turn = Turn(who, asked=worker.states[-1][0], entered=at, **details)
            self.turns.append(turn)
            mark = " · abandoned" if turn.abandoned else ""
            what = f"enters · fence {turn.fence} · waited {turn.waited:.1f} s{mark}"
            self.add_line(at, who, what, bold=turn.abandoned)
        elif event == "leaves":
            self._turn(details["fence"]).valid_until = at
        elif event == "lost":
            turn = self._turn(details["fence"])
            turn.valid_until, turn.lost_at = details["sure"], at
            self.add_line(at, who, f"LeaseLost, starts over: {details['reason']}")
        worker.states.append((at, _STATE_AFTER[event]))

    def hit(self, kind: str, worker: Worker, fence: int, at: float) -> Turn:
        """Record that we have just stopped or killed the holder. Returns its turn."""
        killed = kind == "killed"
        turn = self._turn(fence)
        turn.fault, turn.fault_at, turn.valid_until = kind, at, at
        worker.states.append((at, State.DEAD if killed else State.STOPPED))
        self.add_line(at, worker.name, f"is {kind} by us (SIG{'KILL' if killed else 'STOP'})")
        return turn

    def _turn(self, fence: int) -> Turn:
        return next(turn for turn in reversed(self.turns) if turn.fence == fence)

    def faults(self) -> list[Turn]:
        """The turns whose holder we stopped or killed."""
        return [turn for turn in self.turns if turn.fault]

    def next_after(self, fault: Turn) -> Turn | None:
        """The turn that followed a fault."""
        return next((turn for turn in self.turns if turn.entered > fault.fault_at), None)

    def alive(self) -> list[Worker]:
        """The workers that are not dead."""
        return [each for each in self.workers.values() if each.state is not State.DEAD]

    def starving(self) -> list[str]:
        """The workers that are alive and had no turn since the last fault."""
        since = max((fault.fault_at for fault in self.faults()), default=self.started)
        served = {turn.worker for turn in self.turns if turn.entered > since}
        return [worker.name for worker in self.alive() if worker.name not in served]


def check_all(history: History, leftover: Inspection) -> dict[str, str]:
    """What must hold whatever happens to the workers, however slow the machine is.

    Returns how each invariant was broken; empty if it held.
    """
    turns = sorted(history.turns, key=lambda turn: turn.entered)
    invariants = {
        "fences strictly grew in the order of grants": _fallen_fences(turns),
        "no two valid critical sections overlapped": _overlaps(turns),
        "lease.check() told the stopped holder before its next step": (
            f"{turn.worker} was never told that its lease was lost"
            for turn in turns
            if turn.fault == "stopped" and turn.lost_at is None
        ),
        "the holder after a fault got a higher fence and saw `abandoned`": _not_recovered(history),
        "nobody starved": (
            f"{name} had no turn after the last fault" for name in history.starving()
        ),
        "nothing was left behind in the queue": (
            [f"{len(leftover.holders)} holders and {leftover.waiting} waiting"]
            if leftover.holders or leftover.waiting
            else []
        ),
    }
    return {what: next(iter(broken), "") for what, broken in invariants.items()}


def _fallen_fences(turns: list[Turn]) -> Iterable[str]:
    if not turns:
        yield "nobody got the lock"
    for one, other in pairwise(turns):
        if one.fence >= other.fence:
            yield f"{other.worker} got {other.fence} after {one.worker} had got {one.fence}"


def _overlaps(turns: list[Turn]) -> Iterable[str]:
    for one, other in pairwise(turns):
        if one.valid_until is None:
            yield f"{one.worker} never left, yet {other.worker} entered"
        elif one.valid_until > other.entered:
            overlap = one.valid_until - other.entered
            yield f"{other.worker} entered {overlap:.6f} s before {one.worker} left"


def _not_recovered(history: History) -> Iterable[str]:
    if not history.faults():
        yield "there was no fault to recover from"
    for fault in history.faults():
        after = history.next_after(fault)
        if after is None:
            yield f"nobody got the lock after {fault.worker} was {fault.fault}"
        elif after.fence <= fault.fence or not after.abandoned:
            yield f"{after.worker} could not know that {fault.worker} was {fault.fault}"
