"""Spans of acquiring and holding locks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Any

from opentelemetry import trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY as SUPPRESSED
from opentelemetry.context import get_current
from opentelemetry.trace import Link, SpanKind, StatusCode, TracerProvider

from fencelock.observe import events
from fencelock.observe.events import Event, TicketEvent
from fencelock.observe.groups import Groups
from fencelock.observe.opentelemetry.forks import forget_in_children
from fencelock.observe.opentelemetry.outcomes import OUTCOMES, Attempt
from fencelock.observe.opentelemetry.tickets import Ticket, Tickets


class Traces:
    """An observer that makes a span each time a lock is acquired, and one each time it is held.

    Both are children of the span that is current where the program asks for the lock. `groups` puts names
    into groups, as in `{"order:*": "order"}`, and spans show the group. With `names=True` they show the name
    as well. Without a `tracer_provider`, the global one of the program is used.
    """

    prompt = True  # only the caller's own thread or task knows its current span

    def __init__(
        self,
        groups: Mapping[str, str] | None = None,
        names: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        version = sys.modules["fencelock"].__version__
        self._tracer = trace.get_tracer("fencelock", version, tracer_provider)
        self._groups = Groups(groups)
        self._names = names
        self._tickets = Tickets(_forgotten)
        forget_in_children(self._tickets)

    def __call__(self, event: Event) -> None:
        """Start or end the spans that this event is about."""
        handler = _HANDLERS.get(type(event))
        if handler is not None:
            handler(self, event)

    # --- until it is held

    def _asked(self, event: TicketEvent) -> Ticket | None:
        context = get_current()
        # An exporter must not make spans: it would have to export them, too.
        return None if context.get(SUPPRESSED) else self._tickets.add(event, context)

    def _queued(self, event: events.Queued) -> None:
        self._tickets.waits(event.ticket)

    def _granted(self, event: events.Granted) -> None:
        tickets, number = self._tickets, event.ticket
        # It is not known any more if too many others have asked since then.
        ticket = tickets.get(number) or self._asked(event)
        if ticket is None:
            return
        links = tickets.waited(ticket, exclusive=event.kind == "lock")
        now, about = time_ns(), self._about(event)
        about["lock.fence"] = event.fence
        about["lock.abandoned"] = event.abandoned
        hold = self._tracer.start_span(
            "fencelock.hold", ticket.context, attributes=about, start_time=now
        )
        if hold.is_recording():
            tickets.holds(number, ticket, hold)
        else:  # nothing to end later
            tickets.remove(number)
        self._acquired(event, ticket, about, links, now)

    def _not_granted(self, event: Attempt) -> None:
        tickets = self._tickets
        ticket = tickets.get(event.ticket) or self._asked(event)
        if ticket is None:
            return
        if isinstance(event, events.Refused):
            links = tickets.blocked(ticket)
        else:
            links = tickets.waited(ticket, exclusive=event.kind == "lock")
        tickets.remove(event.ticket)
        self._acquired(event, ticket, self._about(event), links, time_ns())

    def _acquired(
        self, event: Attempt, ticket: Ticket, about: dict[str, Any], links: list[Link], now: int
    ) -> None:
        """Make the span of an attempt that is over. Only now all is known that a sampler may want to know."""
        waited = event.waited
        about["lock.outcome"] = OUTCOMES[type(event)]
        about["lock.waited_ms"] = _ms(waited)
        if isinstance(event, events.Failed):
            about["error.type"] = event.error
        span = self._tracer.start_span(
            "fencelock.acquire",
            ticket.context,
            kind=SpanKind.CLIENT,
            attributes=about,
            links=links,
            start_time=now - int(waited * 1e9),
        )
        if isinstance(event, events.Failed):
            span.set_status(StatusCode.ERROR, event.error)
        span.end(now)

    def _about(self, event: TicketEvent) -> dict[str, Any]:
        """The attributes of both spans."""
        about: dict[str, Any] = {
            "lock.engine": event.engine,
            "lock.kind": event.kind,
            "lock.group": self._groups[event.name],
        }
        if self._names:
            about["lock.name"] = event.name
        return about

    # --- while it is held

    def _renewed(self, event: events.Renewed) -> None:
        # No event of the span: a lease that is held for a day has thousands of them.
        ticket = self._tickets.get(event.ticket)
        if ticket is not None:
            ticket.renewals += 1
            ticket.lowest_margin = min(ticket.lowest_margin, event.margin)

    def _suspended(self, event: events.Suspended) -> None:
        self._happened(event, "lock.suspended", {"lock.remaining_ms": _ms(event.remaining)})

    def _resumed(self, event: events.Resumed) -> None:
        self._happened(event, "lock.resumed", {})

    def _held_long(self, event: events.HeldLong) -> None:
        about = {"lock.held_ms": _ms(event.held_for), "code.stacktrace": event.stack}
        self._happened(event, "lock.held_long", about)

    def _happened(self, event: TicketEvent, what: str, about: dict[str, Any]) -> None:
        ticket = self._tickets.get(event.ticket)
        if ticket is not None and ticket.span is not None:
            ticket.span.add_event(what, about)

    def _released(self, event: events.Released) -> None:
        ticket = self._tickets.remove(event.ticket)
        if ticket is not None:
            _end(ticket, "closed" if event.closed else "released")

    def _lost(self, event: events.Lost) -> None:
        ticket = self._tickets.remove(event.ticket)
        if ticket is not None:
            _end(ticket, "lost", event.reason)


_HANDLERS: dict[type[Event], Callable[[Traces, Any], object]] = {
    events.Asked: Traces._asked,
    events.Queued: Traces._queued,
    **dict.fromkeys(OUTCOMES, Traces._not_granted),
    events.Granted: Traces._granted,
    events.Renewed: Traces._renewed,
    events.Suspended: Traces._suspended,
    events.Resumed: Traces._resumed,
    events.HeldLong: Traces._held_long,
    events.Released: Traces._released,
    events.Lost: Traces._lost,
}


def _forgotten(ticket: Ticket) -> None:
    _end(ticket, "unknown")


def _end(ticket: Ticket, end: str, loss: str = "") -> None:
    """End the span of a ticket that was held."""
    span = ticket.span
    if span is None:
        return
    about: dict[str, Any] = {"lock.end": end}
    if ticket.renewals:
        about["lock.renewals"] = ticket.renewals
        about["lock.lowest_margin_ms"] = _ms(ticket.lowest_margin)
    if loss:
        about["error.type"] = loss
        span.set_status(StatusCode.ERROR, f"the lease was lost: {loss}")
    span.set_attributes(about)
    span.end()


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
