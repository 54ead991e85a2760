"""The judge of a real run: which promises it has kept, which it has broken, and which nothing has tried."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from fencelock.core.ticket import ALONE
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.torture import promises
from fencelock.torture.real.history import History, Occurrence, Span, Turn, merged, time_outside
from fencelock.torture.records import Grant, Violation

Verdict = Literal["held", "broken", "not exercised", "not promised"]

SLACK = 10.0
"""Seconds beyond ttl and timeouts after which waiting counts as standing still for ever. It is generous: a
lock that is stuck stays stuck, and a slow machine must not look like one."""


class Promise(NamedTuple):
    """One thing that a lock promises."""

    id: str
    title: str
    broken: Callable[[History], Iterator[Violation]]


class Judgement(NamedTuple):
    """What became of one promise."""

    promise: Promise
    verdict: Verdict
    detail: str
    violations: list[Violation]


class Hits(NamedTuple):
    """How often the faults of one kind hit what."""

    title: str
    times: int = 0
    holder: int = 0
    waiter: int = 0
    request: int = 0


# --- the promises


def _writes_are_fenced(history: History) -> Iterator[Violation]:
    return promises.no_stale_write(history, history.final)


def _no_update_is_lost(history: History) -> Iterator[Violation]:
    return promises.no_lost_update(history, history.final)


def _fences_grow(history: History) -> Iterator[Violation]:
    spans = history.suspended("fences_grow")
    for violation in promises.fences_grow(history, history.final):
        last = violation.evidence[-1]
        assert isinstance(last, Grant)
        asked = Span(last.attempt.started, last.granted)
        if not any(asked.touches(span) for span in spans):
            yield violation


def _leases_exclude(history: History) -> Iterator[Violation]:
    return promises.one_believer(history, history.final)


def _first_come_first_served(history: History) -> Iterator[Violation]:
    """A caller whose ticket waits is not overtaken by one that asks later, if nothing hit the waiter."""
    if not history.fifo:
        return
    for name in history.names:
        turns = [turn for turn in history.turns if turn.attempt.name == name]
        granted = [turn for turn in turns if turn.grant is not None]
        for waiter in turns:
            if waiter.queued == math.inf:
                continue
            until = _waited_until(waiter)
            before = [
                turn
                for turn in granted
                if turn.attempt.started > waiter.queued
                and turn.grant is not None
                and turn.grant.granted < until
                and not _fit_together(turn, waiter)
            ]
            if before and not _disturbed(history, waiter, until):
                yield _overtaken(waiter, before[0])


def _waited_until(waiter: Turn) -> float:
    """Until when its ticket surely waited. A caller whose time is up takes its ticket back at once."""
    attempt = waiter.attempt
    if waiter.grant is not None:
        return attempt.got
    return attempt.started + attempt.timeout if attempt.outcome == "timeout" else -math.inf


def _fit_together(one: Turn, other: Turn) -> bool:
    """Whether they may hold together: then the order in which their callers hear of it says nothing."""
    share = one.attempt.share
    return share != ALONE and share.group == other.attempt.share.group


def _disturbed(history: History, waiter: Turn, until: float) -> bool:
    """Whether the waiter's ticket may have expired meanwhile, so that it had to join again."""
    waited = Span(waiter.attempt.started, until)
    before = history.plan.ttl
    if any(
        waited.touches(each.span.longer(0, before))
        for each in history.faults_on(waiter.attempt.process)
    ):
        return True
    return any(waited.touches(stall.longer(before, before)) for stall in history.stalls)


def _overtaken(waiter: Turn, other: Turn) -> Violation:
    first, second = waiter.attempt, other.attempt
    assert other.grant is not None
    seconds = second.started - waiter.queued
    text = (
        f"{first.name}: {first.label} of {first.process} waited, and {other.grant}, which asked "
        f"{seconds:.3f} s later, was admitted first"
    )
    evidence = [other.grant] if waiter.grant is None else [other.grant, waiter.grant]
    return Violation(text, evidence)


def _nothing_is_left(history: History) -> Iterator[Violation]:
    return (Violation(leftover) for leftover in history.leftovers)


def _progress(history: History) -> Iterator[Violation]:
    """While callers wait and nothing is in the way, the lock goes on within its ttl and a bit."""
    bound = bound_of(history)
    for idle in idle_times(history):
        if idle.counted > bound:
            yield Violation(
                f"{idle.name}: for {idle.counted:.1f} s nobody got the lock, although callers waited "
                f"and no fault was in the way; {bound:.1f} s are enough"
            )
    for turn in history.turns:
        if turn.attempt.ended == math.inf:
            yield Violation(
                f"{turn.attempt.name}: {turn.attempt.label} of {turn.attempt.process} never ended"
            )


PROMISES = (
    Promise("no_lost_update", "No update is lost", _no_update_is_lost),
    Promise("no_stale_write", "No stale write is accepted", _writes_are_fenced),
    Promise("fences_grow", "Fences only grow", _fences_grow),
    Promise("exclusion", "Leases exclude one another", _leases_exclude),
    Promise("order", "First come, first served", _first_come_first_served),
    Promise("progress", "The lock goes on after every fault", _progress),
    Promise("nothing_left", "Nothing is left behind", _nothing_is_left),
)


# --- time without progress


class Idle(NamedTuple):
    """A time in which callers waited and nobody got the lock."""

    name: str
    span: Span
    counted: float
    """The seconds in which nothing was in the way."""


def bound_of(history: History) -> float:
    """After how many seconds of waiting, with nothing in the way, the lock counts as stuck.

    A lease of a stopped holder lives for a ttl. A change of an engine's leader may give it another one. A
    request that hangs takes its timeout, and is sent again.
    """
    return 2 * history.plan.ttl + history.overstay + 2 * REQUEST_TIMEOUT + SLACK


def idle_times(history: History) -> list[Idle]:
    """For each name, the times between two leases in which a caller waited."""
    blocked = merged(_blocked(history))
    found: list[Idle] = []
    for name in history.names:
        grants = [grant for grant in history.grants if grant.attempt.name == name]
        waits = merged(_waits(history, name))
        free = history.began
        for moment, end in [(g.granted, _end(g)) for g in grants] + [(history.ended, math.inf)]:
            if moment > free:
                gap = Span(free, moment)
                waited = [
                    Span(max(w.at, gap.at), min(w.until, gap.until))
                    for w in waits
                    if w.touches(gap)
                ]
                if waited:
                    counted = sum(time_outside(span, blocked) for span in waited)
                    found.append(Idle(name, Span(waited[0].at, waited[-1].until), counted))
            free = max(free, end)
    return found


def _end(grant: Grant) -> float:
    """Until when its holder surely held: after that its lease may take another ttl to expire."""
    return min(grant.closed, grant.believed_until)


def _waits(history: History, name: str) -> Iterator[Span]:
    """When callers waited that nothing kept from being served."""
    for turn in history.turns:
        attempt = turn.attempt
        if attempt.name == name and attempt.timeout > 0:
            until = min(attempt.got, attempt.ended, history.ended)
            faults = merged(each.span for each in history.faults_on(attempt.process))
            yield from _without(Span(attempt.started, until), faults)


def _without(span: Span, others: list[Span]) -> Iterator[Span]:
    at = span.at
    for other in others:
        if other.until > at and other.at < span.until:
            if other.at > at:
                yield Span(at, other.at)
            at = other.until
    if at < span.until:
        yield Span(at, span.until)


def _blocked(history: History) -> Iterator[Span]:
    """When nobody can be expected to get a lock: no engine, no storage, or a machine that stands still."""
    yield from history.stalls
    for fault in history.occurrences:
        if fault.of_engine:
            yield fault.span
        elif fault.kind == "stop":
            # A process that is stopped in a transaction keeps the storage locked, or the file with the locks.
            lane = fault.lanes[0]
            for worker, spans in _transactions(history):
                if history.lane_of(worker) == lane and any(fault.span.touches(s) for s in spans):
                    yield fault.span


def _transactions(history: History) -> Iterator[tuple[str, list[Span]]]:
    yield from history.storing.items()
    yield from history.requests.items()


# --- the judgement


def hits(history: History) -> dict[str, Hits]:
    """How often the faults of each kind hit a holder, a waiter, and a request under way."""
    found: dict[str, Hits] = {}
    for fault in history.occurrences:
        before = found.get(fault.kind, Hits(fault.title))
        what = what_it_hit(history, fault)
        found[fault.kind] = Hits(
            fault.title,
            before.times + 1,
            before.holder + ("holder" in what),
            before.waiter + ("waiter" in what),
            before.request + ("request" in what),
        )
    return found


def what_it_hit(history: History, fault: Occurrence) -> list[str]:
    """Whether a fault met a holder, a waiter, or a request under way."""
    found = set()
    for turn in history.turns:
        attempt = turn.attempt
        if fault.lanes and history.lane_of(attempt.process) not in fault.lanes:
            continue
        if turn.grant is not None and fault.span.touches(
            Span(turn.grant.granted, turn.grant.closed)
        ):
            found.add("holder")
        if fault.span.touches(Span(turn.queued, min(attempt.got, attempt.ended))):
            found.add("waiter")
    for worker, spans in history.requests.items():
        concerned = not fault.lanes or history.lane_of(worker) in fault.lanes
        if concerned and any(fault.span.touches(span) for span in spans):
            found.add("request")
    return [what for what in ("holder", "waiter", "request") if what in found]


def judge(history: History) -> list[Judgement]:
    """What became of each promise."""
    exercised = any(each.holder for each in hits(history).values())
    return [_judged(history, promise, exercised) for promise in PROMISES]


def _judged(history: History, promise: Promise, exercised: bool) -> Judgement:
    violations = list(promise.broken(history))
    if violations:
        violations.sort(key=Violation.length)
        return Judgement(promise, "broken", str(violations[0]), violations)
    kinds = sorted({each.title for each in history.occurrences if promise.id in each.suspends})
    if promise.id == "order" and not history.fifo:
        return Judgement(promise, "not promised", "This engine has no queue.", [])
    if promise.id in _ABOUT_WRITES and not history.writes:
        return Judgement(promise, "not exercised", "Nothing was written.", [])
    if not exercised:
        return Judgement(promise, "not exercised", "No fault hit a holder.", [])
    if kinds and all(promise.id in each.suspends for each in history.occurrences):
        return Judgement(promise, "not promised", f"Not while {' or '.join(kinds)}.", [])
    return Judgement(promise, "held", f"Except while {' or '.join(kinds)}." if kinds else "", [])


_ABOUT_WRITES = ("no_lost_update", "no_stale_write")


def verdict_of(judgements: list[Judgement]) -> Verdict:
    """The verdict of the whole run."""
    verdicts = {each.verdict for each in judgements}
    if "broken" in verdicts:
        return "broken"
    return "held" if "held" in verdicts else "not exercised"
