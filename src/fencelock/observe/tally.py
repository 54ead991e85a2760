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
from time import monotonic, time
from typing import Any, Generic, NamedTuple, TypeVar, get_args

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
    TicketEvent,
    TimedOut,
)
from fencelock.observe.families import Family
from fencelock.observe.groups import Groups
from fencelock.observe.traces import Trace, current_trace

_BATCH = 64
"""How many events are counted together, unless somebody asks for the counts before."""

_OUTCOMES: dict[type[Event], str] = {
    Granted: "granted",
    Refused: "refused",
    TimedOut: "timeout",
    GaveUp: "cancelled",
    Failed: "error",
}
"""The answers to a caller that asked for a lock."""

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


class _Traced(NamedTuple):
    """An event that happened in a trace."""

    event: Any
    trace: Trace
    seen_at: float


class Tally:
    """An observer that counts. `groups` says which names belong together: see `Groups`."""

    prompt = True
    uses_no_lock = True
    ignores = (Asked,)

    _new_number: Callable[[Family, Labels], Number] = Number
    _new_histogram: Callable[[Family, Labels], Histogram] = Histogram

    def __init__(self, groups: Mapping[str, str] | None = None) -> None:
        self._group_of = Groups(groups)
        self._batch = _BATCH
        self.reset()
        _tallies.add(self)

    def reset(self) -> None:
        """Start from zero, as a forked child does: what its parent counts and holds is not its own."""
        self._events: deque[Event | _Traced] = deque()
        # Re-entrant, because a signal handler may come in the middle of counting.
        self._mutex = threading.RLock()
        self._counting = False
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
            for family in families.ALL
        }
        # The hot path saves a look-up in the dict of dicts.
        self._waits: _Series[Histogram] = self._of(families.ACQUIRE_WAIT)
        self._held_for: _Series[Histogram] = self._of(families.LEASE_HELD)
        self._request_times: _Series[Histogram] = self._of(families.ENGINE_REQUEST)
        self._requests: _Series[Number] = self._of(families.ENGINE_REQUESTS)
        self._leases: _Series[Number] = self._of(families.LEASES)

    def __call__(self, event: Event) -> None:
        """Count this event soon."""
        events, kind = self._events, type(event)
        if (
            "opentelemetry.trace" in sys.modules
            and kind in _OUTCOMES
            and (trace := current_trace())
        ):
            events.append(_Traced(event, trace, time()))
        else:
            events.append(event)
        if len(events) >= self._batch or kind is Queued:  # the time of that one matters
            self._count()

    def counted(self) -> list[Counted]:
        """All counts at this moment."""
        with self._mutex:
            self._count()
            self._learn_engines()
            return [_counted(series) for series in self._series.values()]

    # --- counting

    def _count(self) -> None:
        """Count all events that have come."""
        with self._mutex:
            if self._counting:  # a signal handler interrupts the counting
                return
            self._counting = True
            try:
                events, count = self._events, _COUNT
                while events:
                    event = events.popleft()
                    if type(event) in count:
                        count[type(event)](self, event)
                for place in list(self._waiting):  # the waiters have become older
                    self._waiters_changed(place)
            finally:
                self._counting = False

    def _traced(self, traced: _Traced) -> None:
        event, trace, seen_at = traced
        _COUNT[type(event)](self, event)
        cell, value = self._waits[self._wait_labels(event)], event.waited
        cell.exemplars[cell.bucket_of(value)] = Exemplar(value, trace, seen_at)

    def _answered(self, event: Any) -> None:
        """A caller that asked for a lock got an answer."""
        self._waits[self._wait_labels(event)].add(event.waited)
        if self._waiting:
            self._waits_no_more(event)

    def _granted(self, event: Granted) -> None:
        self._answered(event)
        self._held[event.engine].add(event.ticket)
        self._leases_changed(event.engine)
        if event.abandoned:
            self._add(families.ABANDONED, event.engine, self._group_of(event.name))

    def _ended(self, event: Released | Lost, end: str) -> None:
        """A lease has ended."""
        engine, group = event.engine, self._group_of(event.name)
        self._held_for[engine, event.kind, group, end].add(event.held_for)
        self._held[engine].discard(event.ticket)
        self._suspended[engine].discard(event.ticket)
        self._leases_changed(engine)

    def _released(self, event: Released) -> None:
        self._ended(event, "closed" if event.closed else "released")

    def _lost(self, event: Lost) -> None:
        self._ended(event, "lost")
        self._add(families.LEASES_LOST, event.engine, self._group_of(event.name), event.reason)

    def _renewed(self, event: Renewed) -> None:
        margins = self._of(families.RENEWAL_MARGIN)
        margins[event.engine, self._group_of(event.name)].add(event.margin)

    def _was_suspended(self, event: Suspended) -> None:
        if event.ticket in self._held[event.engine]:
            self._suspended[event.engine].add(event.ticket)
            self._leases_changed(event.engine)

    def _resumed(self, event: Resumed) -> None:
        self._suspended[event.engine].discard(event.ticket)
        self._leases_changed(event.engine)

    def _leases_changed(self, engine: str) -> None:
        suspended = len(self._suspended[engine])
        self._leases[engine, "held"].set(len(self._held[engine]) - suspended)
        self._leases[engine, "suspended"].set(suspended)

    def _queued(self, event: Queued) -> None:
        place = event.engine, self._group_of(event.name)
        self._waiting.setdefault(place, {})[event.ticket] = monotonic()
        self._waiters_changed(place)

    def _waits_no_more(self, event: TicketEvent) -> None:
        place = event.engine, self._group_of(event.name)
        if self._waiting.get(place, {}).pop(event.ticket, None) is not None:
            self._waiters_changed(place)

    def _waiters_changed(self, place: tuple[str, str]) -> None:
        waiting = self._waiting[place]
        self._of(families.WAITERS)[place].set(len(waiting))
        since = next(iter(waiting.values()), None)
        oldest = 0.0 if since is None else monotonic() - since
        self._of(families.OLDEST_WAIT)[place].set(oldest)
        if not waiting:
            del self._waiting[place]

    def _request(self, event: EngineRequest) -> None:
        labels = event.engine, event.operation, event.outcome
        if event.engine not in self._engines:
            self._learn_engines()
            self._meet(event.engine)
        self._request_times[labels].add(event.seconds)
        self._requests[labels].add()

    def _paused(self, event: Paused) -> None:
        self._add(families.PAUSES, event.engine)
        self._add(families.PAUSED, event.engine, amount=event.seconds)

    def _held_long(self, event: HeldLong) -> None:
        self._add(families.HELD_LONG, event.engine, self._group_of(event.name))

    def _fence_fell(self, event: FenceFell) -> None:
        self._add(families.FENCE_REGRESSIONS, event.engine, self._group_of(event.name))

    def _stale_fence(self, event: StaleFence) -> None:
        self._add(families.STALE_FENCES, event.guard, self._group_of(event.name))

    # --- cells

    def _of(self, family: Family) -> _Series[Any]:
        return self._series[family.name]

    def _add(self, family: Family, *labels: str, amount: float = 1.0) -> None:
        self._of(family)[labels].add(amount)

    def _wait_labels(self, event: TicketEvent) -> Labels:
        return event.engine, event.kind, self._group_of(event.name), _OUTCOMES[type(event)]

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
        self._leases_changed(engine)
        self._add(families.PAUSES, engine, amount=0)
        self._add(families.PAUSED, engine, amount=0)
        for group in self._group_of.every:
            for family in (families.ABANDONED, families.FENCE_REGRESSIONS, families.HELD_LONG):
                self._add(family, engine, group, amount=0)
            for reason in get_args(LossReason):
                self._add(families.LEASES_LOST, engine, group, reason, amount=0)
            for guard in families.GUARDS:
                self._add(families.STALE_FENCES, guard, group, amount=0)
            self._waiting.setdefault((engine, group), {})
            self._waiters_changed((engine, group))


_COUNT: dict[type, Callable[[Tally, Any], None]] = {
    _Traced: Tally._traced,
    Queued: Tally._queued,
    Granted: Tally._granted,
    **dict.fromkeys((Refused, TimedOut, GaveUp, Failed), Tally._answered),
    Renewed: Tally._renewed,
    Suspended: Tally._was_suspended,
    Resumed: Tally._resumed,
    Released: Tally._released,
    Lost: Tally._lost,
    HeldLong: Tally._held_long,
    StaleFence: Tally._stale_fence,
    FenceFell: Tally._fence_fell,
    Paused: Tally._paused,
    EngineRequest: Tally._request,
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
