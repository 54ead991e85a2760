"""Waiting for a turn: a parked ticket sleeps until its watches wake it, and then makes sure by a look."""

from __future__ import annotations

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.listener import Listener
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.watches import Watcher
from fencelock.io.contract import IO

_LOOK_TIMEOUT = 2.0
"""Seconds that a ticket that was woken may take to make sure that it is admitted."""


class Parking:
    """The tickets of this client that wait."""

    def __init__(self, tickets: Tickets, listener: Listener, io: IO) -> None:
        self._tickets = tickets
        self._listener = listener
        self._io = io

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        while True:
            entry = self._tickets.entries.get(ticket.id)
            view = View() if entry is None else entry.view
            if entry is None or not view.ahead:
                return None
            watcher = self._watcher(entry, view)
            await watcher.flag.wait(max(0.0, until - self._io.now()))
            try:
                if watcher.broken is not None:
                    raise watcher.broken
                if watcher.must_look:
                    deadline = self._io.now() + _LOOK_TIMEOUT
                    if watcher.late and await self._tickets.unchanged(entry, view, deadline):
                        continue  # nothing happened before the watches began
                    # An event may be old, and tells nothing about our own ticket: make sure. The answer of
                    # one server is enough. The first ticket stays the first until it goes itself, and this
                    # client counts when that may be. A majority would first wait for others' writes.
                    standing = await self._tickets.look(entry, deadline, heard=watcher.heard)
                    if standing is None or not watcher.late or not entry.view.only_renewed(view):
                        return standing
                    continue
            finally:
                if watcher.flag.is_set():
                    self.unpark(ticket)
            if not watcher.renewed:
                return None
            watcher.renewed = False
            recheck = min(map(self._tickets.left, tuple(watcher.ahead.values())))
            return Standing(Place.WAITING, view.fence, recheck=recheck)

    def unpark(self, ticket: Ticket) -> None:
        entry = self._tickets.entries.get(ticket.id)
        if entry is not None and entry.watcher is not None:
            watcher, entry.watcher = entry.watcher, None
            self._listener.drop(watcher)

    def interrupt(self, ticket: Ticket) -> None:
        entry = self._tickets.entries.get(ticket.id)
        if entry is not None and (watcher := entry.watcher) is not None:
            watcher.flag.set()

    def _watcher(self, entry: Entry, view: View) -> Watcher:
        watcher = entry.watcher
        if watcher is not None and not watcher.waits_for(view.ahead):
            self._listener.drop(watcher)
            watcher = None
        if watcher is None:
            flag = self._io.event()
            # First into the entry: if the waiter is interrupted, it is dropped together with its entry.
            watcher = entry.watcher = Watcher(view.ahead, view.lacking, view.revision, flag)
            self._listener.add(watcher, entry.key)
        return watcher
