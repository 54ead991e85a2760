"""Metrics of locks, leases and engines."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider, Observation

from fencelock.observe import events
from fencelock.observe.audience import audiences_of
from fencelock.observe.events import Event, TicketEvent
from fencelock.observe.groups import Groups
from fencelock.observe.opentelemetry.forks import forget_in_children
from fencelock.observe.opentelemetry.outcomes import OUTCOMES, Attempt

_BOUNDS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0),
)
"""The bounds of the buckets in seconds, unless the program chooses others with a view."""

LIMIT = 100_000
"""The number of tickets that are counted. If there are more, the oldest one is forgotten: a ticket whose end
nobody has told must not stay for ever."""

_WAITING, _HELD, _SUSPENDED = "waiting", "held", "suspended"


class _Open:
    """A ticket that waits or is held."""

    __slots__ = ("engine", "group", "since", "state")

    def __init__(self, engine: str, group: str, state: str) -> None:
        self.engine = engine
        self.group = group
        self.state = state
        self.since = time.monotonic()


class Meters:
    """An observer that measures locks, leases and engines with the instruments of OpenTelemetry.

    `groups` puts names into groups, as in `{"order:*": "order"}`; a name itself is never an attribute.
    Without a `meter_provider`, the global one of the program is used.
    """

    prompt = True  # so that the exemplar of a measurement is the caller's span

    def __init__(
        self,
        groups: Mapping[str, str] | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        self._groups = Groups(groups)
        self.forget()
        forget_in_children(self)
        version = sys.modules["fencelock"].__version__
        meter = metrics.get_meter("fencelock", version, meter_provider)
        self._wait = _seconds(meter, "acquire.wait", "From asking for a lock to the answer")
        self._held = _seconds(meter, "lease.held", "How long leases were held")
        self._margin = _seconds(
            meter, "renewal.margin", "Time left until the loss when a renewal was confirmed"
        )
        self._request = _seconds(meter, "engine.request", "Requests to the engine")
        count = meter.create_counter
        self._lost = count("fencelock.leases_lost", "{lease}", "Leases that were lost")
        self._abandoned = count(
            "fencelock.abandoned", "{lease}", "Leases whose previous holder did not release"
        )
        self._stale = count("fencelock.stale_fences", "{write}", "Writes that a guard refused")
        self._fell = count(
            "fencelock.fence_regressions", "{fence}", "Fences that were not above earlier ones"
        )
        self._long = count("fencelock.held_long", "{lease}", "Leases held longer than warn_after")
        self._pauses = count("fencelock.pauses", "{pause}", "How often this process stood still")
        self._paused_for = count("fencelock.paused", "s", "How long this process stood still")
        self._observe_with(meter)

    def _observe_with(self, meter: Meter) -> None:
        """Make the instruments that are read, instead of being told."""
        # An observable counter, because adding to the other kind takes as long as all the rest here.
        meter.create_observable_counter(
            "fencelock.engine_requests",
            [self._read_requests],
            "{request}",
            "Requests to the engine",
        )
        gauge = meter.create_observable_up_down_counter
        gauge("fencelock.leases", [self._read_leases], "{lease}", "Leases that are held")
        gauge("fencelock.waiters", [self._read_waiters], "{waiter}", "Tickets that wait")
        meter.create_observable_gauge(
            "fencelock.oldest_wait", [self._read_oldest], "s", "How long the oldest waiter waits"
        )

    def forget(self) -> None:
        """Forget all tickets. Their events come no more."""
        # Re-entrant, because a signal handler may use a lock while this thread reads the counts.
        self._mutex = threading.RLock()
        self._open: dict[int, _Open] = {}
        self._requests: Counter[tuple[str, str, str]] = Counter()
        # What was seen once is reported from then on, if need be as zero.
        self._engines: set[str] = set()
        self._queues: set[tuple[str, str]] = set()

    def __call__(self, event: Event) -> None:
        """Measure what this event is about."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    # --- tickets

    def _queued(self, event: events.Queued) -> None:
        group = self._groups[event.name]
        self._queues.add((event.engine, group))
        self._add(event, group, _WAITING)

    def _answered(self, event: Attempt) -> None:
        engine, group = event.engine, self._groups[event.name]
        if isinstance(event, events.Granted):
            self._engines.add(engine)
            self._add(event, group, _HELD)
            if event.abandoned:
                self._abandoned.add(1, {"engine": engine, "group": group})
        else:
            self._remove(event)
        about = {"engine": engine, "kind": event.kind, "group": group}
        about["outcome"] = OUTCOMES[type(event)]
        self._wait.record(event.waited, about)

    def _renewed(self, event: events.Renewed) -> None:
        about = {"engine": event.engine, "group": self._groups[event.name]}
        self._margin.record(max(0.0, event.margin), about)

    def _suspended(self, event: events.Suspended) -> None:
        self._became(event, _SUSPENDED)

    def _resumed(self, event: events.Resumed) -> None:
        self._became(event, _HELD)

    def _held_long(self, event: events.HeldLong) -> None:
        self._long.add(1, {"engine": event.engine, "group": self._groups[event.name]})

    def _ended(self, event: events.Released | events.Lost) -> None:
        self._remove(event)
        engine, group = event.engine, self._groups[event.name]
        if isinstance(event, events.Lost):
            end = "lost"
            self._lost.add(1, {"engine": engine, "group": group, "reason": event.reason})
        else:
            end = "closed" if event.closed else "released"
        about = {"engine": engine, "kind": event.kind, "group": group, "end": end}
        self._held.record(event.held_for, about)

    def _add(self, event: TicketEvent, group: str, state: str) -> None:
        with self._mutex:
            self._open[event.ticket] = _Open(event.engine, group, state)
            if len(self._open) > LIMIT:
                del self._open[next(iter(self._open))]

    def _became(self, event: TicketEvent, state: str) -> None:
        found = self._open.get(event.ticket)
        if found is not None:
            found.state = state

    def _remove(self, event: TicketEvent) -> None:
        with self._mutex:
            self._open.pop(event.ticket, None)

    # --- guards and engines

    def _stale_fence(self, event: events.StaleFence) -> None:
        self._stale.add(1, {"guard": event.guard, "group": self._groups[event.name]})

    def _fence_fell(self, event: events.FenceFell) -> None:
        self._fell.add(1, {"engine": event.engine, "group": self._groups[event.name]})

    def _paused(self, event: events.Paused) -> None:
        about = {"engine": event.engine}
        self._pauses.add(1, about)
        self._paused_for.add(event.seconds, about)

    def _requested(self, event: events.EngineRequest) -> None:
        engine, operation, outcome = event.engine, event.operation, event.outcome
        with self._mutex:
            self._requests[engine, operation, outcome] += 1
        about = {"engine": engine, "operation": operation, "outcome": outcome}
        self._request.record(event.seconds, about)

    # --- what is read when the program collects its metrics

    def _read_requests(self, options: CallbackOptions) -> Iterable[Observation]:
        with self._mutex:
            counts = dict(self._requests)
        for (engine, operation, outcome), number in counts.items():
            about = {"engine": engine, "operation": operation, "outcome": outcome}
            yield Observation(number, about)

    def _read_leases(self, options: CallbackOptions) -> Iterable[Observation]:
        counts = Counter((each.engine, each.state) for each in self._now())
        for engine in list(self._engines):
            for state in (_HELD, _SUSPENDED):
                yield Observation(counts[engine, state], {"engine": engine, "state": state})

    def _read_waiters(self, options: CallbackOptions) -> Iterable[Observation]:
        counts = Counter((each.engine, each.group) for each in self._now(_WAITING))
        for engine, group in list(self._queues):
            yield Observation(counts[engine, group], {"engine": engine, "group": group})

    def _read_oldest(self, options: CallbackOptions) -> Iterable[Observation]:
        now = time.monotonic()
        oldest = dict.fromkeys(list(self._queues), now)
        for each in self._now(_WAITING):
            queue = each.engine, each.group
            oldest[queue] = min(oldest.get(queue, now), each.since)
        for (engine, group), since in oldest.items():
            yield Observation(now - since, {"engine": engine, "group": group})

    def _now(self, *states: str) -> list[_Open]:
        """The open tickets."""
        removed = not audiences_of(self)
        with self._mutex:
            if removed:  # so it did not hear of their end
                self._open.clear()
            every = list(self._open.values())
        return [each for each in every if not states or each.state in states]


def _seconds(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(
        f"fencelock.{name}", "s", description, explicit_bucket_boundaries_advisory=_BOUNDS
    )


_HANDLERS: dict[type[Event], Callable[[Meters, Any], None]] = {
    events.Queued: Meters._queued,
    **dict.fromkeys(OUTCOMES, Meters._answered),
    events.Renewed: Meters._renewed,
    events.Suspended: Meters._suspended,
    events.Resumed: Meters._resumed,
    events.HeldLong: Meters._held_long,
    events.Released: Meters._ended,
    events.Lost: Meters._ended,
    events.StaleFence: Meters._stale_fence,
    events.FenceFell: Meters._fence_fell,
    events.Paused: Meters._paused,
    events.EngineRequest: Meters._requested,
}
