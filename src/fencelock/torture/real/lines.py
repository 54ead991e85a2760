"""A history as JSON objects, one per line: for the report, and for programs of the user.

All moments are seconds since the run began. Fences are text, because JavaScript rounds numbers above 2⁵³.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

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
_BEFORE, _AFTER = 1.0, 1.0
"""How many ttls around a violation belong to its counterexample."""
_MOST_EVENTS = 40


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
        # The shortest one is the easiest to understand.
        for violation in sorted(judgement.violations, key=_length)[:3]:
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


def _spread(violation: Violation) -> tuple[float, float]:
    moments = [moment for each in violation.evidence for moment in _times(each)]
    return (min(moments), max(moments)) if moments else (-math.inf, math.inf)


def _times(evidence: Grant | Write) -> list[float]:
    if isinstance(evidence, Write):
        return [evidence.at]
    return [evidence.granted, evidence.believed]


def _length(violation: Violation) -> float:
    at, until = _spread(violation)
    return until - at


def _violation(history: History, promise: str, violation: Violation) -> Line:
    at, until = _spread(violation)
    at, until = max(at, history.began), min(until, history.ended)
    moments, ttl = _moments(history), history.plan.ttl
    events = []
    if violation.evidence:
        names = {
            each.name if isinstance(each, Write) else each.attempt.name
            for each in violation.evidence
        }
        nearby = _story(history, names, at - _BEFORE * ttl, until + _AFTER * ttl)
        # What is nearest to the harm explains it.
        nearby.sort(key=lambda event: max(at - event[0], event[0] - until, 0.0))
        events = sorted(nearby[:_MOST_EVENTS])
    return {
        "type": "violation",
        "promise": promise,
        "text": violation.text,
        "at": moments(at),
        "until": moments(until),
        "events": [
            {"at": moments(moment), "worker": worker, "what": what}
            for moment, worker, what in events
        ],
    }


def _story(
    history: History, names: set[str], since: float, until: float
) -> list[tuple[float, str, str]]:
    """What happened to some names in some time: when, to whom, and what."""
    found: list[tuple[float, str, str]] = []
    for turn in history.turns:
        attempt, grant, who = turn.attempt, turn.grant, turn.attempt.process
        if attempt.name not in names:
            continue
        found.append((attempt.started, who, f"asks for {attempt.name}"))
        if grant is not None:
            mark = ", the name was abandoned" if grant.abandoned else ""
            found.append((grant.granted, who, f"holds it with fence {grant.fence}{mark}"))
            end = f"loses it: {grant.reason}" if grant.told < math.inf else "gives it back"
            found.append((min(grant.closed, grant.told), who, f"{end} (fence {grant.fence})"))
    for write in history.writes:
        if write.turn.attempt.name in names:
            fence = write.turn.grant.fence if write.turn.grant else "?"
            late = ", late" if write.late else ""
            text = f"write of {write.value} over {write.replaced} with fence {fence}{late}: {write.outcome}"
            found.append((write.at, write.turn.attempt.process, text))
    for fault in history.occurrences:
        found.append((fault.span.at, fault.target, f"fault: {fault.title}"))
        found.append((fault.span.until, fault.target, f"healed: {fault.title}"))
    return [event for event in found if since <= event[0] <= until]


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
