"""A history as JSON objects, one per line: for the report, and for programs of the user.

All moments are seconds since the run began. Fences are text, because JavaScript rounds numbers above 2⁵³.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import fencelock
from fencelock.core.url import Url
from fencelock.io.clock import now
from fencelock.torture.real.history import History, RealWrite, Turn, merged
from fencelock.torture.real.judge import (
    Judgement,
    bound_of,
    hits,
    idle_times,
    verdict_of,
    what_it_hit,
)
from fencelock.torture.records import Grant, Violation, Write

Line = dict[str, Any]

_TEXT = {
    "held": "Every promise was kept.",
    "broken": "A promise was broken.",
    "not exercised": "No fault hit a holder, so this run proves nothing.",
}
_MOST_EVENTS = 12
"""How long a counterexample may be."""


def lines(
    history: History, judgements: Sequence[Judgement], engine: str, url: str, depth: str
) -> Iterator[Line]:
    """The history, then the promises, then the verdict."""
    yield _run(history, engine, url, depth)
    yield from _happened(history)
    for judgement in judgements:
        yield {
            "type": "promise",
            "id": judgement.promise.id,
            "title": judgement.promise.title,
            "verdict": judgement.verdict,
            "detail": judgement.detail,
        }
    for judgement in judgements:
        for violation in judgement.violations[:3]:
            yield _violation(history, judgement.promise.id, violation)
    yield verdict_line(history, judgements)


def _run(history: History, engine: str, url: str, depth: str) -> Line:
    plan = history.plan
    began = datetime.now(UTC) - timedelta(seconds=now() - history.began)
    return {
        "type": "run",
        "version": fencelock.__version__,
        "engine": engine,
        "url": str(Url.parse(url)),
        "depth": depth,
        "primitive": plan.primitive,
        "permits": plan.permits if plan.primitive == "semaphore" else None,
        "ttl": plan.ttl,
        "seconds": round(history.ended - history.began, 3),
        "began": began.isoformat(timespec="seconds"),
        "seed": plan.seed,
        "names": plan.names,
        "storage": Url.parse(plan.storage).scheme,
        "bare": plan.bare,
    }


def _happened(history: History) -> Iterator[Line]:
    at = _moments(history)
    for lane, life in history.lives:
        yield {
            "type": "process",
            "lane": lane,
            "worker": life.worker,
            "pid": life.process.pid,
            "at": at(life.began),
            "until": at(life.ended),
            "end": life.how or None,
        }
    for fault in history.occurrences:
        yield {
            "type": "fault",
            "kind": fault.kind,
            "title": fault.title,
            "target": fault.target,
            "lanes": list(fault.lanes),
            "at": at(fault.span.at),
            "until": at(fault.span.until),
            "hit": what_it_hit(history, fault),
            "detail": fault.detail,
        }
    for stall in merged(history.stalls):
        yield {"type": "stall", "at": at(stall.at), "until": at(stall.until)}
    for turn in history.turns:
        yield from _turn(history, turn)
    for write in history.writes:
        yield _write(history, write)


def _turn(history: History, turn: Turn) -> Iterator[Line]:
    at, attempt, grant = _moments(history), turn.attempt, turn.grant
    what = {"worker": attempt.process, "name": attempt.name}
    until = min(attempt.got, attempt.ended)
    outcome = "granted" if grant is not None else attempt.outcome
    if outcome in ("killed", "lost", "refused"):
        outcome = "cut short"
    yield {
        "type": "attempt",
        **what,
        "at": at(attempt.started),
        "until": at(until),
        "outcome": outcome,
        "error": turn.error if grant is None else "",
    }
    if grant is None:
        return
    yield {
        "type": "grant",
        **what,
        "share": turn.kind,
        "fence": str(grant.fence),
        "at": at(grant.granted),
        "sure_until": at(grant.believed),
        "released": at(grant.closed) if grant.told == math.inf else None,
        "lost": at(grant.told),
        "reason": grant.reason,
        "abandoned": grant.abandoned,
    }


def _write(history: History, write: RealWrite) -> Line:
    grant = write.turn.grant
    return {
        "type": "write",
        "worker": write.turn.attempt.process,
        "name": write.turn.attempt.name,
        "fence": str(grant.fence) if grant else "",
        "at": _moments(history)(write.at),
        "value": write.value,
        "replaced": write.replaced,
        "outcome": write.outcome,
        "newest": None if write.newest is None else str(write.newest),
        "late": write.late,
    }


# --- a counterexample


def _violation(history: History, promise: str, violation: Violation) -> Line:
    at, until = violation.spread()
    at, until = max(at, history.began), min(until, history.ended)
    moments = _moments(history)
    return {
        "type": "violation",
        "promise": promise,
        "text": violation.text,
        "at": moments(at),
        "until": moments(until),
        "events": [
            {"at": moments(moment), "worker": worker, "what": what}
            for moment, worker, what in _counterexample(history, violation, at, until)
        ],
    }


class Event(NamedTuple):
    """One line of a counterexample."""

    at: float
    who: str
    what: str


def _counterexample(history: History, violation: Violation, at: float, until: float) -> list[Event]:
    """What its turns did; and as much of what happened nearby as a person can read."""
    if not violation.evidence:
        return []
    names = {_name(each) for each in violation.evidence}
    turns = [turn for turn in history.turns if turn.attempt.name in names]
    concerned = [turn for turn in turns if _shows(turn, violation)]
    found = [event for turn in concerned for event in _story(history, turn)]
    others = [event for turn in turns if turn not in concerned for event in _story(history, turn)]
    others += _faults(history)
    others = [each for each in others if at - history.plan.ttl <= each.at <= until]
    # What is nearest to the harm explains it.
    others.sort(key=lambda event: max(at - event.at, event.at - until, 0.0))
    return sorted(found + others[: max(0, _MOST_EVENTS - len(found))])


def _name(evidence: Grant | Write) -> str:
    return evidence.name if isinstance(evidence, Write) else evidence.attempt.name


def _shows(turn: Turn, violation: Violation) -> bool:
    """Whether a turn is what broke the promise."""
    if turn.grant is None:
        return False
    return any(
        turn.grant is each
        or (
            isinstance(each, Write) and (turn.grant.fence, turn.holder) == (each.fence, each.holder)
        )
        for each in violation.evidence
    )


def _story(history: History, turn: Turn) -> Iterator[Event]:
    attempt, grant, who = turn.attempt, turn.grant, turn.attempt.process
    yield Event(attempt.started, who, f"asks for {attempt.name}")
    if grant is None:
        return
    mark = ", the name was abandoned" if grant.abandoned else ""
    yield Event(grant.granted, who, f"holds it with fence {grant.fence}{mark}")
    end = f"loses it: {grant.reason}" if grant.told < math.inf else "gives it back"
    yield Event(min(grant.closed, grant.told), who, f"{end} (fence {grant.fence})")
    for write in history.writes:
        if write.turn is turn:
            late = ", late" if write.late else ""
            text = f"write of {write.value} over {write.replaced}, fence {grant.fence}{late}"
            yield Event(write.at, who, f"{text}: {write.outcome}")


def _faults(history: History) -> Iterator[Event]:
    for fault in history.occurrences:
        yield Event(fault.span.at, fault.target, f"fault: {fault.title}")
        yield Event(fault.span.until, fault.target, f"healed: {fault.title}")


# --- the verdict


def verdict_line(history: History, judgements: Sequence[Judgement]) -> Line:
    """The last line: the verdict, and the figures."""
    verdict = verdict_of(list(judgements))
    counts = history.counts
    return {
        "type": "verdict",
        "verdict": verdict,
        "text": next((j.detail for j in judgements if j.verdict == "broken"), _TEXT[verdict]),
        "acknowledged": sum(history.acknowledged(name) for name in history.names),
        "stored": sum(history.final.guarded.values()),
        "refused": counts["refused"],
        "bare_lost": history.bare_lost() if history.plan.bare else None,
        "grants": len(history.grants),
        "lost": counts["attempts lost"],
        "longest_idle": round(max((idle.counted for idle in idle_times(history)), default=0.0), 3),
        "bound": round(bound_of(history), 3),
        "faults": {kind: each._asdict() for kind, each in hits(history).items()},
    }


class _moments:
    """From moments of the clock to seconds since the run began; None for what did not happen."""

    def __init__(self, history: History) -> None:
        self._began = history.began

    def __call__(self, moment: float | None) -> float | None:
        if moment is None or math.isinf(moment):
            return None
        return round(moment - self._began, 6)
