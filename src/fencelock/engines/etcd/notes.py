"""What is noted down for a name: a key beside its queue, on a lease of its own that lasts as long as it.

etcd counts a lease in whole seconds, grants none below a minimum, and starts again under a new leader. It
never ends sooner. So that it does not seem to end later, a client counts as well, from when it first saw
the note: see `core/observed_expiry.py`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import suppress

from fencelock.core.note import Note
from fencelock.core.observed_expiry import ObservedTickets
from fencelock.core.ticket import Place, Ticket
from fencelock.engines.etcd import requests
from fencelock.engines.etcd.keys import note_key
from fencelock.engines.etcd.messages_pb2 import RangeRequest
from fencelock.engines.etcd.queues import Queues
from fencelock.engines.etcd.troubles import CallFailed
from fencelock.engines.etcd.wire import RANGE, first

_REMEMBERED = 1_000
"""Names of which it is remembered when their note was first seen."""


class Notes:
    """What this client writes and reads, and when it first saw it."""

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self._sightings = ObservedTickets()
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._mutex = threading.Lock()

    async def remember(self, ticket: Ticket, text: str, keep: float, until: float) -> bool:
        """Note something down, if this ticket holds."""
        holding = await self._holding(ticket, until)
        if holding is None:
            return False
        lease = await self._queues.leases.own(keep, until)
        value = Note(keep, text).pack()
        request = requests.note(*holding, note_key(ticket.name), value, lease)
        try:
            answer = await self._queues.ask(request, until)
        except CallFailed as error:
            if error.outcome == "not applied":
                await self._end(lease.id, until)
            raise
        if not answer.succeeded:
            await self._end(lease.id, until)
            return False
        self._left(ticket.name, answer.header.revision, keep)
        before = first(answer.responses[0].response_range)
        if before is not None:
            await self._end(before.lease, until)
        return True

    async def recall(self, name: str, until: float) -> str | None:
        """What was noted down, unless its time is up."""
        request = RangeRequest(key=note_key(name))
        found = first(await self._queues.cluster.ask(RANGE, request, until, repeatable=True))
        if found is None:
            return None
        note = Note.unpack(found.value)
        return note.text if self._left(name, found.mod_revision, note.keep) > 0 else None

    async def _holding(self, ticket: Ticket, until: float) -> tuple[bytes, int] | None:
        """Key and fence of a ticket that was admitted, which it stays as long as its key is there."""
        seat = self._queues.seats.get(ticket.id)
        if seat is None or not seat.view.fence:
            seat = await self._queues.find(ticket, until)
        if seat is None:
            return None
        view = seat.view
        if view.admitted:
            return seat.key, view.fence
        standing = await self._queues.look(seat, until)
        if standing is None or standing.place is not Place.ADMITTED:
            return None
        return seat.key, standing.fence

    def _left(self, name: str, version: int, keep: float) -> float:
        """Seconds that a note, seen now, has left."""
        with self._mutex:
            self._seen[name] = None
            self._seen.move_to_end(name)
            if len(self._seen) > _REMEMBERED:
                self._sightings.forget(self._seen.popitem(last=False)[0])
            return self._sightings.left(name, version, keep, self._queues.io.now())

    async def _end(self, lease: int, until: float) -> None:
        """End a lease on which no note lives, and which might last for a year."""
        with suppress(CallFailed):
            await self._queues.leases.end(lease, until)
