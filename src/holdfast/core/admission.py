"""The one rule under all primitives: who in a queue of tickets may go ahead.

A ticket is admitted when fewer than `permits` conflicting tickets stand ahead of it:

- mutex: everything ahead conflicts, 1 permit;
- semaphore(n): everything ahead conflicts, n permits;
- reader: only writers ahead conflict, 1 permit; writer: everything ahead conflicts, 1 permit.

Order of arrival is order of admission, so the order number serves as the fence.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.ticket import Mode, Ticket


def conflicts(ticket: Ticket, ahead: Ticket) -> bool:
    """Whether a ticket has to mind one that stands ahead of it."""
    return not (ticket.mode is Mode.READ and ahead.mode is Mode.READ)


def admitted(ticket: Ticket, ahead: Iterable[Ticket]) -> bool:
    """Whether a ticket may go, given the tickets that stand ahead of it."""
    return sum(conflicts(ticket, other) for other in ahead) < ticket.permits
