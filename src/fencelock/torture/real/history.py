"""The history of a real run, put together from the journals of its workers and the log of its faults."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fencelock.core.ticket import ALONE, READING, Share
from fencelock.torture.real.plan import Plan
from fencelock.torture.real.register import Final
from fencelock.torture.real.stage import Lane, Life
from fencelock.torture.records import Attempt, Grant


class Span(NamedTuple):
    """From one moment to another."""

    at: float
    until: float

    def touches(self, other: Span) -> bool:
        """Whether they have a moment in common."""
        return self.at <= other.until and other.at <= self.until

    def longer(self, before: float, after: float) -> Span:
        """The same span, and some seconds before and after it."""
        return Span(self.at - before, self.until + after)


@dataclass(frozen=True)
class Occurrence:
    """One fault, as it happened."""

    kind: str
    title: str
    target: str
    lanes: Sequence[str]
    """The lanes that it has hit; none: the engine."""
    span: Span
    of_engine: bool
    suspends: frozenset[str]
    detail: str = ""


@dataclass(slots=True, eq=False)
class Turn:
    """One attempt of a worker, and what came of it."""

    attempt: Attempt
    kind: str
    queued: float = math.inf
    """When it was known that the ticket had joined the queue and waits."""
    grant: Grant | None = None
    holder: str = ""
    error: str = ""


class RealWrite(NamedTuple):
    """One write, as its writer saw it."""

    turn: Turn
    at: float
    value: int
    replaced: int
    outcome: str
    """"accepted", "refused" or "unknown"."""
    newest: int | None
    late: bool


@dataclass
class History:
    """What happened. It is a `records.Record`."""

    plan: Plan
    fifo: bool
    overstay: float
    """The engine's trait `max_overstay`."""
    began: float
    ended: float
    lives: list[tuple[str, Life]]
    """Each process, with the name of its lane."""
    occurrences: list[Occurrence]
    final: Final
    leftovers: list[str]
    turns: list[Turn] = field(default_factory=list)
    writes: list[RealWrite] = field(default_factory=list)
    stalls: list[Span] = field(default_factory=list)
    """When the machine, or one process for no reason of ours, stood still."""
    storing: dict[str, list[Span]] = field(default_factory=dict)
    """When a worker used the storage, and may have kept a transaction open."""
    requests: dict[str, list[Span]] = field(default_factory=dict)
    """When a request of a worker to the engine was under way."""
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def names(self) -> Sequence[str]:
        return self.plan.names

    @property
    def grants(self) -> list[Grant]:
        """The leases, in the order in which their holders learned of them."""
        found = [turn.grant for turn in self.turns if turn.grant is not None]
        return sorted(found, key=lambda grant: grant.granted)

    def acknowledged(self, name: str) -> int:
        """How many writes the storage has confirmed to their writers."""
        return self.counts[f"acknowledged {name}"]

    def bare_lost(self) -> int:
        """How many confirmed writes are missing in the numbers without a guard."""
        return sum(self.counts[f"bare {name}"] - self.final.bare[name] for name in self.names)

    def admitted(self, grant: Grant) -> float:
        """When its holder learned of it: nobody has asked the engine."""
        return grant.granted

    def forgot(self, name: str, since: float, until: float) -> bool:
        """Whether a fault in that time took a promise away for which this is asked."""
        asked = Span(since, until)
        return any(asked.touches(span) for span in self.suspended("exclusion"))

    def suspended(self, promise: str) -> list[Span]:
        """When this engine does not make a promise. What a fault has begun may show after two ttls."""
        after = 2 * self.plan.ttl + self.overstay
        return [each.span.longer(0, after) for each in self.occurrences if promise in each.suspends]

    def lane_of(self, worker: str) -> str:
        """The lane of a worker."""
        return worker.partition(".")[0]

    def faults_on(self, worker: str) -> list[Occurrence]:
        """The faults that hit this worker, or all of them."""
        lane = self.lane_of(worker)
        return [each for each in self.occurrences if not each.lanes or lane in each.lanes]


def read_journals(history: History, lanes: Iterable[Lane]) -> None:
    """Fill a history with what the workers have written."""
    for lane in lanes:
        for life in lane.lives:
            _Journal(history, life, history.faults_on(life.worker)).read()
    history.turns.sort(key=lambda turn: turn.attempt.started)
    history.writes.sort(key=lambda write: write.at)


class _Journal:
    """Reads the journal of one worker into the history."""

    def __init__(self, history: History, life: Life, faults: Sequence[Occurrence]) -> None:
        self._history = history
        self._life = life
        self._stops = [each.span for each in faults if each.kind == "stop"]
        self._turns: dict[int, Turn] = {}
        self._storing: float | None = None
        self._late: dict[int, dict[str, Any]] = {}
        history.storing[life.worker] = []
        history.requests[life.worker] = []

    def read(self) -> None:
        """Read all its lines. After a kill, what was open ended at that moment."""
        if not self._life.journal.exists():
            return
        for line in self._life.journal.read_text().splitlines():
            facts = json.loads(line)
            getattr(self, "_" + facts.pop("what").replace(" ", "_"), self._ignored)(**facts)
        end = self._life.ended or self._history.ended
        if self._storing is not None:
            self._history.storing[self._life.worker].append(Span(self._storing, end))
        for turn in self._turns.values():
            if turn.attempt.ended == math.inf and self._life.how == "killed":
                turn.attempt.outcome = "killed"
                turn.attempt.ended = end
            if turn.grant is not None:
                turn.grant.closed = min(turn.grant.closed, turn.attempt.ended)

    def _ignored(self, **_: Any) -> None:
        """What only helps people who read the journal."""

    def _ask(self, at: float, number: int, name: str, kind: str, timeout: float) -> None:
        plan, worker = self._history.plan, self._life.worker
        share = {"read": READING, "permit": Share.of(plan.permits)}.get(kind, ALONE)
        label = f"turn {number}"
        attempt = Attempt(worker, label, name, plan.ttl, timeout, at, share)
        turn = self._turns[number] = Turn(attempt, kind)
        self._history.turns.append(turn)

    def _queued(self, at: float, number: int) -> None:
        if number in self._turns:  # 0: it is the bell of an election
            self._turns[number].queued = min(self._turns[number].queued, at)

    def _held(self, at: float, number: int, fence: int, abandoned: bool, holder: str) -> None:
        turn = self._turns[number]
        turn.attempt.got = at
        turn.holder = holder
        turn.grant = Grant(turn.attempt, fence, at, at, abandoned)

    def _sure(self, at: float, number: int) -> None:
        grant = self._turns[number].grant
        if grant is not None:
            grant.believed_until = max(grant.believed_until, at)

    def _release(self, at: float, number: int, sure: float) -> None:
        grant = self._turns[number].grant
        if grant is not None:
            self._sure(max(sure, grant.granted), number)
            grant.closed = at

    def _over(self, at: float, number: int, outcome: str, error: str) -> None:
        turn = self._turns[number]
        turn.attempt.ended = at
        turn.attempt.outcome = outcome
        turn.error = error
        self._history.counts[f"attempts {outcome}"] += 1
        if outcome == "lost" and turn.grant is not None:
            turn.grant.told = at
            turn.grant.reason = error

    def _write(
        self,
        at: float,
        number: int,
        name: str,
        fence: int,
        value: int,
        replaced: int,
        late: bool,
        outcome: str,
        newest: int | None = None,
    ) -> None:
        turn = self._turns[number]
        write = RealWrite(turn, at, value, replaced, outcome, newest, late)
        self._history.writes.append(write)
        self._history.counts[outcome] += 1
        if outcome == "accepted":
            self._history.counts[f"acknowledged {name}"] += 1

    def _bare(self, at: float, name: str) -> None:
        self._history.counts[f"bare {name}"] += 1

    def _store(self, at: float) -> None:
        self._storing = at

    def _stored(self, at: float) -> None:
        if self._storing is not None:
            self._history.storing[self._life.worker].append(Span(self._storing, at))
        self._storing = None

    def _request(self, at: float, since: float, operation: str, outcome: str) -> None:
        self._history.requests[self._life.worker].append(Span(since, at))
        if outcome in ("not applied", "unknown"):
            self._history.counts[f"requests {outcome}"] += 1

    def _stall(self, at: float, since: float) -> None:
        """It stood still: because we have stopped it, or because the machine is busy."""
        span = Span(since, at)
        if not any(span.touches(stop.longer(0.3, 0.3)) for stop in self._stops):
            self._history.stalls.append(span)


def merged(spans: Iterable[Span]) -> list[Span]:
    """The same time as spans that don't touch, in order."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.at <= found[-1].until:
            found[-1] = Span(found[-1].at, max(found[-1].until, span.until))
        else:
            found.append(span)
    return found


def time_outside(span: Span, others: Sequence[Span]) -> float:
    """How many seconds of a span are in none of the others, which are merged."""
    left = span.until - span.at
    first = max(0, bisect_left(others, (span.at, span.at)) - 1)
    for other in others[first:]:
        if other.at >= span.until:
            break
        left -= max(0.0, min(other.until, span.until) - max(other.at, span.at))
    return left
