"""What has happened so far in the demo, as told by the workers' journals."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Doing(Enum):
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
    sure_until: float | None = None
    """The last moment at which the worker knew that the lock was its own; None: it still does."""
    told_at: float | None = None
    """When `lease.check()` or `release()` told it that its lease was lost."""
    abandoned: bool = False
    """The holder before did not release."""

    @property
    def waited(self) -> float:
        return self.entered - self.asked


@dataclass(slots=True)
class Fault:
    """Something we did to a holder, and how long the others were held up by it."""

    kind: str
    worker: str
    fence: int
    at: float
    next: Turn | None = None

    @property
    def recovery(self) -> float:
        """Seconds from the fault to the next one's turn."""
        return self.next.entered - self.at if self.next else float("inf")


@dataclass(slots=True)
class Worker:
    """What is known of one worker."""

    name: str
    pid: int
    doing: Doing = Doing.RESTING
    asked: float = 0.0
    turns: int = 0
    ready: bool = False
    left: bool = False
    history: list[tuple[float, Doing]] = field(default_factory=list)
    """When it began to do what."""

    def does(self, doing: Doing, at: float) -> None:
        self.doing = doing
        self.history.append((at, doing))

    def did(self, at: float) -> Doing | None:
        """What it was doing at a moment; None before its first."""
        return next((doing for since, doing in reversed(self.history) if since <= at), None)


class Scene:
    """Everyone and everything so far."""

    def __init__(self, started: float) -> None:
        self.started = started
        self.workers: dict[str, Worker] = {}
        self.turns: list[Turn] = []
        self.faults: list[Fault] = []
        self.log: list[tuple[float, str, str, bool]] = []
        """When, who, what, and whether that is out of the ordinary."""

    def hire(self, name: str, pid: int) -> None:
        """Add a worker."""
        self.workers[name] = Worker(name, pid)

    def tell(self, at: float, who: str, what: str, *, loud: bool = True) -> None:
        """Add a line to the log."""
        self.log.append((at - self.started, who, what, loud))

    def take_in(self, who: str, event: str, at: float = 0.0, **details: Any) -> None:
        """Understand a line of a worker's journal."""
        worker = self.workers[who]
        if event == "ready":
            worker.ready = True
        elif event == "left":
            worker.left = True
        elif event == "asks":
            worker.asked = at
            worker.does(Doing.WAITING, at)
        elif event == "enters":
            self._enters(worker, at, **details)
        elif event == "leaves":
            self._turn(details["fence"]).sure_until = at
            worker.does(Doing.RESTING, at)
        elif event == "lost":
            self._lost(worker, at, **details)

    def _enters(self, worker: Worker, at: float, fence: int, abandoned: bool) -> None:
        turn = Turn(worker.name, fence, worker.asked, at, abandoned=abandoned)
        self.turns.append(turn)
        worker.turns += 1
        worker.does(Doing.HOLDING, at)
        for fault in self.faults:
            if fault.next is None and at > fault.at:
                fault.next = turn
        note = " · abandoned" if abandoned else ""
        what = f"enters · fence {fence} · waited {turn.waited:.1f} s{note}"
        self.tell(at, worker.name, what, loud=abandoned)

    def _lost(self, worker: Worker, at: float, fence: int, sure: float, reason: str) -> None:
        turn = self._turn(fence)
        turn.sure_until, turn.told_at = sure, at
        worker.does(Doing.RESTING, at)
        self.tell(at, worker.name, f"LeaseLost, starts over: {reason}")

    def struck(self, kind: str, worker: Worker, fence: int, at: float) -> Fault:
        """Note that we have just stopped or killed the holder."""
        fault = Fault(kind, worker.name, fence, at)
        self.faults.append(fault)
        turn = self._turn(fence)
        turn.sure_until = at
        worker.does(Doing.DEAD if kind == "killed" else Doing.STOPPED, at)
        return fault

    def _turn(self, fence: int) -> Turn:
        return next(turn for turn in reversed(self.turns) if turn.fence == fence)

    def holder(self, but_not: Container[str] = ()) -> Worker | None:
        """The worker whose turn it is, by the journals, unless it is one of those."""
        for each in self.workers.values():
            if each.doing is Doing.HOLDING and each.name not in but_not:
                return each
        return None

    def alive(self) -> Iterator[Worker]:
        """Those who are not dead."""
        return (each for each in self.workers.values() if each.doing is not Doing.DEAD)
