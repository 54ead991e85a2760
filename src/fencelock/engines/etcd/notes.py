"""The note of a name: a key beside its queue, on a lease of its own that lasts as long as the note.

etcd counts a lease in whole seconds, grants none below a minimum, and starts again under a new leader. A note
never ends too soon. So that it does not seem to end too late, a client counts as well, from when it first saw
the note: see `Expiry`.
"""

from __future__ import annotations

from contextlib import suppress

from fencelock.core.note import Note
from fencelock.core.ticket import Ticket
from fencelock.engines.etcd.errors import CallFailed
from fencelock.engines.etcd.keys import note_key
from fencelock.engines.etcd.messages_pb2 import RangeRequest
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.wire import created_at, first, get_without_value, put, txn


async def remember(tickets: Tickets, ticket: Ticket, note: Note, until: float) -> bool:
    """Store a note if this ticket holds the name."""
    (entry,) = await tickets.find([ticket], until)
    if entry is not None and not entry.view.admitted:
        await tickets.look(entry, until)
    if entry is None or not entry.view.admitted:
        return False
    holding = created_at(entry.key, entry.view.fence)  # it holds as long as its key is there
    lease = await tickets.leases.single(note.keep, until)
    key = note_key(ticket.name)
    # The first step tells on which lease the note lives that this one replaces.
    steps = [get_without_value(key), put(key, note.pack(), lease.id)]
    try:
        answer = await tickets.cluster.txn(txn([holding], steps), until)
    except CallFailed as error:
        if error.outcome == "not applied":
            await _end(tickets, lease.id, until)
        raise
    if not answer.succeeded:
        await _end(tickets, lease.id, until)
        return False
    _left(tickets, ticket.name, answer.header.revision, note)
    replaced = first(answer.responses[0].response_range)
    if replaced is not None:
        await _end(tickets, replaced.lease, until)
    return True


async def recall(tickets: Tickets, name: str, until: float) -> str | None:
    """The note, unless its time is up."""
    found = first(await tickets.cluster.read(RangeRequest(key=note_key(name)), until))
    if found is None:
        return None
    note = Note.unpack(found.value)
    return note.text if _left(tickets, name, found.mod_revision, note) > 0 else None


def _left(tickets: Tickets, name: str, revision: int, note: Note) -> float:
    """Seconds that a note has left which was seen just now."""
    return tickets.expiry.left(f"note {name}", revision, note.keep)


async def _end(tickets: Tickets, lease: int, until: float) -> None:
    """End a lease without a note. It might last for a year."""
    with suppress(CallFailed):
        await tickets.leases.end(lease, until)
