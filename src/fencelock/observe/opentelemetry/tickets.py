"""The tickets of this process whose end has not come: their spans, and which of them a waiter waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext

from fencelock.observe.events import TicketEvent

LIMIT = 10_000
"""The number of tickets that are remembered. If there are more, the oldest one is forgotten: a ticket whose
end nobody has told must not stay for ever."""

_MOST_LINKS = 8
"""The number of holders that a waiter has links to. A semaphore may have thousands."""


class Ticket:
    """A ticket from the moment when its caller asks until it has ended."""

    __slots__ = ("ahead", "context", "lowest_margin", "name", "newest", "renewals", "span")

    def __init__(self, name: tuple[str, str], context: Context) -> None:
        self.name = name
        """The kind of engine, and the name of the lock."""
        self.context = context
        """The caller's context when it asked. It has the caller's current span."""
        self.ahead: list[SpanContext] | None = None
        """The holders when it began to wait. None if it does not wait."""
        self.newest: SpanContext | None = None
        """The holder that had come last when it began to wait."""
        self.span: Span | None = None
        """The span of holding."""
        self.renewals = 0
        self.lowest_margin = float("inf")


class _Name:
    """The tickets of this process that hold a name or wait for it."""

    __slots__ = ("holders", "newest", "waiters")

    def __init__(self) -> None:
        self.holders: dict[int, SpanContext] = {}
        self.newest: SpanContext | None = None
        """The holder that came last. It may be gone."""
        self.waiters = 0


class Tickets:
    """All these tickets. Two names of the same kind of engine are the same name here, whatever the server."""

    def __init__(self, forgotten: Callable[[Ticket], None]) -> None:
        self._forgotten = forgotten
        """Is called with each ticket that is forgotten because there are too many."""
        self.forget()

    def forget(self) -> None:
        """Forget all tickets."""
        # Never held while a span starts or ends: a processor of spans may be slow.
        self._mutex = threading.Lock()
        self._tickets: dict[int, Ticket] = {}
        self._names: dict[tuple[str, str], _Name] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def get(self, number: int) -> Ticket | None:
        """The ticket with this number."""
        return self._tickets.get(number)

    def add(self, event: TicketEvent, context: Context) -> Ticket:
        """Remember a new ticket, whose caller is in this context."""
        ticket, oldest = Ticket((event.engine, event.name), context), None
        with self._mutex:
            self._tickets[event.ticket] = ticket
            if len(self._tickets) > LIMIT:
                oldest = self._remove(next(iter(self._tickets)))
        if oldest is not None:
            self._forgotten(oldest)
        return ticket

    def waits(self, number: int) -> None:
        """This ticket waits from now on, until `waited`."""
        with self._mutex:
            ticket = self._tickets.get(number)
            if ticket is None or ticket.ahead is not None:
                return
            name = self._names.setdefault(ticket.name, _Name())
            name.waiters += 1
            ticket.ahead = list(islice(name.holders.values(), _MOST_LINKS))
            ticket.newest = name.newest

    def waited(self, ticket: Ticket, *, exclusive: bool) -> list[Link]:
        """The ticket does not wait any more. Returns links to the holders that it has waited for.

        These are the holders when it began to wait. If it wants the name for itself, they also include the
        holder that came last since then: the ticket gets the name from that one.
        """
        with self._mutex:
            if ticket.ahead is None:
                return []
            found, newest = ticket.ahead, self._names[ticket.name].newest
            self._stop_waiting(ticket)
        if exclusive and newest is not None and newest is not ticket.newest:
            found.append(newest)
        return [Link(each) for each in found]

    def blocked(self, ticket: Ticket) -> list[Link]:
        """Links to the holders of the ticket's name."""
        with self._mutex:
            name = self._names.get(ticket.name)
            return (
                [Link(each) for each in islice(name.holders.values(), _MOST_LINKS)] if name else []
            )

    def holds(self, number: int, ticket: Ticket, span: Span) -> None:
        """This ticket holds its name from now on."""
        ticket.span = span
        with self._mutex:
            if self._tickets.get(number) is ticket:
                name = self._names.setdefault(ticket.name, _Name())
                name.newest = name.holders[number] = span.get_span_context()

    def remove(self, number: int) -> Ticket | None:
        """Forget this ticket, because it has ended. Returns it; None if it is not known."""
        with self._mutex:
            return self._remove(number)

    def _remove(self, number: int) -> Ticket | None:
        ticket = self._tickets.pop(number, None)
        if ticket is not None:
            if ticket.ahead is not None:
                self._stop_waiting(ticket)
            elif (name := self._names.get(ticket.name)) is not None:
                name.holders.pop(number, None)
                self._tidy(ticket.name, name)
        return ticket

    def _stop_waiting(self, ticket: Ticket) -> None:
        name = self._names[ticket.name]
        name.waiters -= 1
        ticket.ahead = None
        self._tidy(ticket.name, name)

    def _tidy(self, key: tuple[str, str], name: _Name) -> None:
        if not name.holders and not name.waiters:
            del self._names[key]
