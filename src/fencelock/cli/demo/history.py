"""What has happened so far in the demo, from the reports of the workers."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class State(Enum):
    """What a worker is doing."""

    RESTING = "resting"
    WAITING = "waiting"
    HOLDING = "holding"
    STOPPED = "stopped"
    DEAD = "dead"


@dataclass(slots=True)
class Turn:
    """One turn of one worker. The times are those of `fencelock.io.clock`, the same for all processes."""

    worker: str
    fence: int
    asked: float
    entered: float
    valid_until: float | None = None
    """The last moment at which the worker knew that it held the lock; None if it still holds it."""
    lost_at: float | None = None
    """When `lease.check()` or `release()` raised `LeaseLost`."""
    abandoned: bool = False
    """Whether the previous holder did not release the lock."""

    @property
    def waited(self) -> float:
        return self.entered - self.asked


@dataclass(slots=True)
class Fault:
    """A holder that we stopped or killed, and the turn that followed."""

    kind: str
    worker: str
    fence: int
    at: float
    next: Turn | None = None

    @property
    def recovery(self) -> float:
        """Seconds from the fault to the next turn."""
        return self.next.entered - self.at if self.next else float("inf")


@dataclass(slots=True)
class Worker:
    """One worker."""

    name: str
    pid: int
    state: State = State.RESTING
    asked: float = 0.0
    turns: int = 0
    ready: bool = False
    left: bool = False
    states: list[tuple[float, State]] = field(default_factory=list)
    """Each state, with the moment at which it began."""

    def enter(self, state: State, at: float) -> None:
        self.state = state
        self.states.append((at, state))

    def state_at(self, at: float) -> State | None:
        """The state at a moment; None before the first state."""
        return next((state for since, state in reversed(self.states) if since <= at), None)


class History:
    """All workers, their turns and the faults so far."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.workers: dict[str, Worker] = {}
        self.turns: list[Turn] = []
        self.faults: list[Fault] = []
        self.log: list[tuple[float, str, str, bool]] = []
        """Seconds since the start, the worker, what happened, and whether to print it in bold."""

    def add_worker(self, name: str, pid: int) -> None:
        """Add a worker."""
        self.workers[name] = Worker(name, pid)

    def add_line(self, at: float, who: str, what: str, *, bold: bool = True) -> None:
        """Add a line to the log."""
        self.log.append((at - self.started, who, what, bold))

    def record(self, who: str, event: str, at: float = 0.0, **details: Any) -> None:
        """Record a report of a worker."""
        worker = self.workers[who]
        if event == "ready":
            worker.ready = True
        elif event == "left":
            worker.left = True
        elif event == "asks":
            worker.asked = at
            worker.enter(State.WAITING, at)
        elif event == "enters":
            self._enters(worker, at, **details)
        elif event == "leaves":
            self._turn(details["fence"]).valid_until = at
            worker.enter(State.RESTING, at)
        elif event == "lost":
            self._lost(worker, at, **details)

    def _enters(self, worker: Worker, at: float, fence: int, abandoned: bool) -> None:
        turn = Turn(worker.name, fence, worker.asked, at, abandoned=abandoned)
        self.turns.append(turn)
        worker.turns += 1
        worker.enter(State.HOLDING, at)
        for fault in self.faults:
            if fault.next is None and at > fault.at:
                fault.next = turn
        mark = " · abandoned" if abandoned else ""
        what = f"enters · fence {fence} · waited {turn.waited:.1f} s{mark}"
        self.add_line(at, worker.name, what, bold=abandoned)

    def _lost(self, worker: Worker, at: float, fence: int, sure: float, reason: str) -> None:
        turn = self._turn(fence)
        turn.valid_until, turn.lost_at = sure, at
        worker.enter(State.RESTING, at)
        self.add_line(at, worker.name, f"LeaseLost, starts over: {reason}")

    def fault(self, kind: str, worker: Worker, fence: int, at: float) -> Fault:
        """Record that we have just stopped or killed the holder."""
        fault = Fault(kind, worker.name, fence, at)
        self.faults.append(fault)
        self._turn(fence).valid_until = at
        worker.enter(State.DEAD if kind == "killed" else State.STOPPED, at)
        return fault

    def _turn(self, fence: int) -> Turn:
        return next(turn for turn in reversed(self.turns) if turn.fence == fence)

    def holder(self, but_not: Container[str] = ()) -> Worker | None:
        """The worker that holds the lock, by its own report, unless it is in `but_not`."""
        for each in self.workers.values():
            if each.state is State.HOLDING and each.name not in but_not:
                return each
        return None

    def alive(self) -> Iterator[Worker]:
        """The workers that are not dead."""
        return (each for each in self.workers.values() if each.state is not State.DEAD)
