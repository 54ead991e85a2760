"""Whether every invariant held, from the reports of the workers."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from fencelock.cli.demo.history import Fault, History, Turn
from fencelock.core.ticket import Inspection


class Check(NamedTuple):
    """One invariant."""

    what: str
    broken: str
    """How it was broken; empty if it held."""

    @property
    def held(self) -> bool:
        return not self.broken


def check_all(history: History, leftover: Inspection) -> list[Check]:
    """Check what must hold whatever happens to the workers, however slow the machine is."""
    turns = sorted(history.turns, key=lambda turn: turn.entered)
    faults = history.faults
    invariants = {
        "fences strictly grew in the order of grants": _fallen_fences(turns),
        "no two valid critical sections overlapped": _overlaps(turns),
        "lease.check() told the stopped holder before its next step": _never_told(faults, turns),
        "the holder after a fault got a higher fence and saw `abandoned`": _not_recovered(faults),
        "nobody starved": _starved(history),
        "nothing was left behind in the queue": _left_behind(leftover),
    }
    return [Check(what, next(iter(broken), "")) for what, broken in invariants.items()]


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


def _never_told(faults: list[Fault], turns: list[Turn]) -> Iterable[str]:
    told = {turn.fence for turn in turns if turn.lost_at is not None}
    for fault in faults:
        if fault.kind == "stopped" and fault.fence not in told:
            yield f"{fault.worker} was never told that its lease was lost"


def _not_recovered(faults: list[Fault]) -> Iterable[str]:
    if not faults:
        yield "there was no fault to recover from"
    for fault in faults:
        if fault.next is None:
            yield f"nobody got the lock after {fault.worker} was {fault.kind}"
        elif fault.next.fence <= fault.fence or not fault.next.abandoned:
            yield f"{fault.next.worker} could not know that {fault.worker} was {fault.kind}"


def _starved(history: History) -> Iterable[str]:
    since = max((fault.at for fault in history.faults), default=history.started)
    served = {turn.worker for turn in history.turns if turn.entered > since}
    for worker in history.alive():
        if worker.name not in served:
            yield f"{worker.name} had no turn after the last fault"


def _left_behind(seen: Inspection) -> Iterable[str]:
    if seen.holders or seen.waiting:
        yield f"{len(seen.holders)} holders and {seen.waiting} waiting"
