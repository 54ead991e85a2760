"""Waiting for a turn: a parked ticket sleeps until its watches wake it, and then makes sure by a look."""

from __future__ import annotations

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.listener import Listener
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.watches import Watcher

_LOOK_TIMEOUT = 2.0
"""Seconds that a ticket that was woken may take to make sure that it is admitted."""


async def park(
    tickets: Tickets, listener: Listener, ticket: Ticket, until: float
) -> Standing | None:
    while True:
        entry = tickets.entries.get(ticket.id)
        view = View() if entry is None else entry.view
        if entry is None or not view.ahead:
            return None
        watcher = _watcher(tickets, listener, entry, view)
        await watcher.flag.wait(max(0.0, until - tickets.io.now()))
        try:
            if watcher.broken is not None:
                raise watcher.broken
            if watcher.must_look:
                deadline = tickets.io.now() + _LOOK_TIMEOUT
                if watcher.late and await tickets.unchanged(entry, view, deadline):
                    continue  # nothing happened before the watches began
                # An event may be old, and tells nothing about our own ticket: make sure. The answer of one
                # server is enough. The first ticket stays the first until it goes itself, and this client
                # counts when that may be. A majority would first wait for others' writes.
                standing = await tickets.look(entry, deadline, heard=watcher.heard)
                if standing is None or not watcher.late or not entry.view.only_renewed(view):
                    return standing
                continue
        finally:
            if watcher.flag.is_set():
                unpark(tickets, listener, ticket)
        if not watcher.renewed:
            return None
        watcher.renewed = False
        recheck = min(map(tickets.left, tuple(watcher.ahead.values())))
        return Standing(Place.WAITING, view.fence, recheck=recheck)


def unpark(tickets: Tickets, listener: Listener, ticket: Ticket) -> None:
    entry = tickets.entries.get(ticket.id)
    if entry is not None and entry.watcher is not None:
        watcher, entry.watcher = entry.watcher, None
        listener.drop(watcher)


def interrupt(tickets: Tickets, ticket: Ticket) -> None:
    entry = tickets.entries.get(ticket.id)
    if entry is not None and (watcher := entry.watcher) is not None:
        watcher.flag.set()


def _watcher(tickets: Tickets, listener: Listener, entry: Entry, view: View) -> Watcher:
    watcher = entry.watcher
    if watcher is not None and not watcher.waits_for(view.ahead):
        listener.drop(watcher)
        watcher = None
    if watcher is None:
        flag = tickets.io.event()
        # First into the entry: if the waiter is interrupted, it is dropped together with its entry.
        watcher = entry.watcher = Watcher(view.blockers, view.revision, flag)
        listener.add(watcher, entry.key)
    return watcher
