"""Counts events: what the metrics of Prometheus and of `fencelock run --metrics` are made of.

A lock is acquired and released in 50 µs, so counting must take next to nothing. An event is only put into a
queue. When enough events have come, or when somebody asks for the counts, all of them are counted. That also
makes the counts exact: only one thread at a time counts, and only the queue must be safe for all.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from time import monotonic, time
from typing import Any, Generic, TypeVar, get_args

from fencelock.core.version import __version__
from fencelock.observe import families
from fencelock.observe.audience import audiences_of
from fencelock.observe.cells import Counted, Exemplar, Histogram, Labels, Number
from fencelock.observe.events import (
    Asked,
    EngineRequest,
    Event,
    Failed,
    FenceFell,
    GaveUp,
    Granted,
    HeldLong,
    LossReason,
    Lost,
    Paused,
    Queued,
    Refused,
    Released,
    Renewed,
    Resumed,
    StaleFence,
    Suspended,
    TimedOut,
)
from fencelock.observe.families import Family
from fencelock.observe.groups import Groups
from fencelock.observe.observer import Recorder, complain
from fencelock.observe.traces import current_trace

_BATCH = 512
"""How many events are counted together, unless somebody asks for the counts before."""

_BATCHES = 8
"""After how many of these batches the values of histograms are put into their buckets."""

_OUTCOMES: dict[type[Event], str] = {
    Granted: "granted",
    Refused: "refused",
    TimedOut: "timeout",
    GaveUp: "cancelled",
    Failed: "error",
}
"""The answers to a caller that asked for a lock."""

_LOSSES: tuple[LossReason, ...] = get_args(LossReason)

Cell = TypeVar("Cell", Number, Histogram)


class _Series(dict[Labels, Cell], Generic[Cell]):
    """The cells of one metric. A cell that is missing is made."""

    def __init__(self, family: Family, make: Callable[[Family, Labels], Cell]) -> None:
        self.family = family
        self._make: Callable[[Family, Labels], Cell] = make

    def __missing__(self, labels: Labels) -> Cell:
        cell: Cell = self._make(self.family, labels)
        self[labels] = cell
        return cell


Fields = tuple[Any, ...]
"""The fields of an event, in the order of observe/events.py."""


class _Traced(Event):
    """The kind of what is recorded for an answer that was given in a trace: see `_traced`."""


class Tally(Recorder):
    """An observer that counts. `groups` says which names belong together: see `Groups`."""

    ignores = (Asked,)

    shows: tuple[Family, ...] = families.ALL
    """The metrics that it counts."""

    _new_number: Callable[[Family, Labels], Number] = Number
    _new_histogram: Callable[[Family, Labels], Histogram] = Histogram

    def __init__(self, groups: Mapping[str, str] | None = None) -> None:
        self._groups = Groups(groups)
        self._batch, self._batches = _BATCH, _BATCHES
        self.reset()
        _tallies.add(self)

    def reset(self) -> None:
        """Start from zero, as a forked child does: what its parent counts and holds is not its own."""
        self._events: deque[tuple[type, Fields]] = deque()
        # Re-entrant, because a signal handler may come in the middle of counting.
        self._mutex = threading.RLock()
        self._counting = False
        self._unsettled = 0
        """The number of batches since the last settling."""
        self._engines: set[str] = set()
        self._held: defaultdict[str, set[int]] = defaultdict(set)
        """The tickets that hold a lease, by engine."""
        self._suspended: defaultdict[str, set[int]] = defaultdict(set)
        """Those of them whose last renewal was not answered."""
        self._waiting: dict[tuple[str, str], dict[int, float]] = {}
        """The tickets that wait, by engine and group: since when. The first one has waited for longest."""
        self._series: dict[str, _Series[Any]] = {
            family.name: _Series(
                family, self._new_histogram if family.type == "histogram" else self._new_number
            )
            for family in self.shows
        }
        # The hot path saves a look-up in the dict of dicts.
        self._waits: _Series[Histogram] = self._of(families.ACQUIRE_WAIT)
        self._held_for: _Series[Histogram] = self._of(families.LEASE_HELD)
        self._request_times: _Series[Histogram] = self._of(families.ENGINE_REQUEST)
        self._requests: _Series[Number] = self._of(families.ENGINE_REQUESTS)
        self._leases: _Series[Number] = self._of(families.LEASES)

    def record(self, kind: type[Event], fields: Fields, since: object = None, /) -> None:
        """Count the event `kind(*fields)` soon."""
        events = self._events
        if (
            kind in _OUTCOMES
            and "opentelemetry.trace" in sys.modules
            and (trace := current_trace())
        ):
            kind, fields = _Traced, (kind, fields, trace, time())
        elif kind is Queued:
            fields = (*fields, monotonic())
        events.append((kind, fields))
        if len(events) >= self._batch:
            try:
                self._count()
            except Exception:  # such as a full disk: counts may be wrong, but no lock is harmed
                complain(self)

    def counted(self) -> list[Counted]:
        """All counts at this moment."""
        removed = not audiences_of(self)
        with self._mutex:
            self._learn_engines()
            self._count()
            if removed:  # so it did not hear of the end of these
                for tickets in (*self._held.values(), *self._suspended.values()):
                    tickets.clear()
                for waiting in self._waiting.values():
                    waiting.clear()
            self._settle()
            return [_counted(series) for series in self._series.values()]

    # --- counting

    def _count(self) -> None:
        """Count all events that have come."""
        with self._mutex:
            if self._counting:  # a signal handler interrupts the counting
                return
            self._counting = True
            try:
                count, request_times = self._ways(), self._request_times
                with suppress(IndexError):  # that was the last one
                    for kind, fields in iter(self._events.popleft, None):
                        if kind is EngineRequest:  # half of all events
                            request_times[fields[:-1]].add(fields[-1])
                        elif kind in count:
                            count[kind](self, fields)
                self._unsettled += 1
                if self._unsettled >= self._batches:
                    self._settle()
            finally:
                self._counting = False

    def _ways(self) -> Mapping[type, Callable[[Any, Fields], None]]:
        """How to count each kind of event."""
        return _COUNT

    def _traced(self, fields: Fields) -> None:
        """An answer that was given in a trace."""
        kind, of_event, trace, seen_at = fields
        _COUNT[kind](self, of_event)
        name, engine, how, _, _, waited, *_ = of_event
        cell = self._waits[engine, how, self._groups[name], _OUTCOMES[kind]]
        cell.exemplars[cell.bucket_of(waited)] = Exemplar(waited, trace, seen_at)

    def _granted(self, fields: Fields) -> None:
        name, engine, kind, _, ticket, waited, _, abandoned = fields
        self._waits[engine, kind, self._groups[name], "granted"].add(waited)
        if self._waiting:
            self._waits_no_more(name, engine, ticket)
        self._held[engine].add(ticket)
        if abandoned:
            self._add(families.ABANDONED, engine, self._groups[name])

    def _not_granted(self, fields: Fields, outcome: str) -> None:
        name, engine, kind, _, ticket, waited, *_ = fields
        self._waits[engine, kind, self._groups[name], outcome].add(waited)
        self._waits_no_more(name, engine, ticket)

    def _waits_no_more(self, name: str, engine: str, ticket: int) -> None:
        self._waiting.get((engine, self._groups[name]), {}).pop(ticket, None)

    def _ended(self, fields: Fields) -> None:
        """A lease was released or lost."""
        name, engine, kind, _, ticket, _, held_for, how = fields
        end = "lost" if how in _LOSSES else "closed" if how else "released"
        self._held_for[engine, kind, self._groups[name], end].add(held_for)
        self._held[engine].discard(ticket)
        if self._suspended:
            self._suspended[engine].discard(ticket)

    def _lost(self, fields: Fields) -> None:
        self._ended(fields)
        name, engine, *_, reason = fields
        self._add(families.LEASES_LOST, engine, self._groups[name], reason)

    def _renewed(self, fields: Fields) -> None:
        name, engine, *_, margin = fields
        self._of(families.RENEWAL_MARGIN)[engine, self._groups[name]].add(margin)

    def _was_suspended(self, fields: Fields) -> None:
        _, engine, _, _, ticket, *_ = fields
        if ticket in self._held[engine]:
            self._suspended[engine].add(ticket)

    def _resumed(self, fields: Fields) -> None:
        _, engine, _, _, ticket, _ = fields
        self._suspended[engine].discard(ticket)

    def _queued(self, fields: Fields) -> None:
        name, engine, _, _, ticket, since = fields
        self._waiting.setdefault((engine, self._groups[name]), {})[ticket] = since

    def _paused(self, fields: Fields) -> None:
        engine, seconds = fields
        self._add(families.PAUSES, engine)
        self._add(families.PAUSED, engine, amount=seconds)

    def _held_long(self, fields: Fields) -> None:
        name, engine, *_ = fields
        self._add(families.HELD_LONG, engine, self._groups[name])

    def _fence_fell(self, fields: Fields) -> None:
        name, engine, *_ = fields
        self._add(families.FENCE_REGRESSIONS, engine, self._groups[name])

    def _stale_fence(self, fields: Fields) -> None:
        name, guard, *_ = fields
        self._add(families.STALE_FENCES, guard, self._groups[name])

    def _settle(self) -> None:
        """After some events: bring the cells up to date that are not with each event."""
        self._unsettled = 0
        for labels, histogram in self._request_times.items():
            self._requests[labels].add(histogram.settle())
            if labels[0] not in self._engines:
                self._learn_engines()
                self._meet(labels[0])
        for histogram in (*self._waits.values(), *self._held_for.values()):
            histogram.settle()
        for engine in self._engines:
            suspended = len(self._suspended.get(engine, ()))
            self._leases[engine, "held"].set(len(self._held[engine]) - suspended)
            self._leases[engine, "suspended"].set(suspended)
        for place, waiting in list(self._waiting.items()):
            self._of(families.WAITERS)[place].set(len(waiting))
            since = next(iter(waiting.values()), None)
            self._of(families.OLDEST_WAIT)[place].set(0 if since is None else monotonic() - since)
            if not waiting:
                del self._waiting[place]

    # --- cells

    def _of(self, family: Family) -> _Series[Any]:
        return self._series[family.name]

    def _add(self, family: Family, *labels: str, amount: float = 1.0) -> None:
        self._of(family)[labels].add(amount)

    def _learn_engines(self) -> None:
        """Find out which engines the clients have that this observer hears of."""
        for audience in audiences_of(self):
            for engine, guarantee in audience.engines():
                self._of(families.ENGINE_INFO)[engine, guarantee, __version__].set(1)
                self._meet(engine)

    def _meet(self, engine: str) -> None:
        """Start the counters of an engine with 0: Prometheus does not see a counter's first step from nothing
        to 1."""
        if engine in self._engines:
            return
        self._engines.add(engine)
        self._add(families.PAUSES, engine, amount=0)
        self._add(families.PAUSED, engine, amount=0)
        for group in self._groups.every:
            for family in (families.ABANDONED, families.FENCE_REGRESSIONS, families.HELD_LONG):
                self._add(family, engine, group, amount=0)
            for reason in _LOSSES:
                self._add(families.LEASES_LOST, engine, group, reason, amount=0)
            for guard in families.GUARDS:
                self._add(families.STALE_FENCES, guard, group, amount=0)
            self._waiting.setdefault((engine, group), {})


_COUNT: dict[type, Callable[[Tally, Fields], None]] = {
    _Traced: Tally._traced,
    Queued: Tally._queued,
    **{kind: partial(Tally._not_granted, outcome=_OUTCOMES[kind]) for kind in _OUTCOMES},
    Granted: Tally._granted,
    Renewed: Tally._renewed,
    Suspended: Tally._was_suspended,
    Resumed: Tally._resumed,
    Released: Tally._ended,
    Lost: Tally._lost,
    HeldLong: Tally._held_long,
    StaleFence: Tally._stale_fence,
    FenceFell: Tally._fence_fell,
    Paused: Tally._paused,
}


def _counted(series: _Series[Any]) -> Counted:
    if series.family.type != "histogram":
        return Counted(series.family, {labels: cell.value for labels, cell in series.items()}, {})
    return Counted(series.family, {}, {labels: cell.copy() for labels, cell in series.items()})


_tallies: weakref.WeakSet[Tally] = weakref.WeakSet()


def _forked() -> None:
    for tally in list(_tallies):
        tally.reset()


os.register_at_fork(after_in_child=_forked)
