"""Renewing many tickets at once, and the leases on which they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd import looking
from fencelock.engines.etcd.entry import Change, Entry, View
from fencelock.engines.etcd.errors import CallFailed, LeaseGone
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.tickets import Tickets
from fencelock.engines.etcd.wire import (
    BATCH,
    TXN,
    Method,
    created_at,
    first,
    get,
    nested,
    txn,
)

_ROUNDS = 3
"""How often a ticket is tried: again if its lease turned out to be gone, or another client has changed it."""


class _Renewal(NamedTuple):
    position: int
    ticket: Ticket
    entry: Entry
    view: View
    ttl: float
    lease: Lease
    change: Change


async def renew(tickets: Tickets, due: Sequence[Ticket], until: float) -> list[Standing | None]:
    """Where each ticket stands. None for a ticket without an answer.

    Raises `CallFailed` if no ticket got one.
    """
    standings: list[Standing | None] = [None] * len(due)
    failure: CallFailed | None = None
    for _ in range(_ROUNDS):
        sent = tickets.io.now()
        renewals: list[_Renewal] = []
        missing = [index for index, standing in enumerate(standings) if standing is None]
        entries = await tickets.find([due[index] for index in missing], until)
        for index, entry in zip(missing, entries, strict=True):
            ticket = due[index]
            if entry is None:
                standings[index] = Standing(Place.GONE)
            else:
                ttl, view = entry.ttl_to_write(ticket, sent), entry.view
                lease = await tickets.leases.granted(ttl, until)
                change = entry.change(ticket, ttl, lease)
                renewals.append(_Renewal(index, ticket, entry, view, ttl, lease, change))
        failure = await _round(tickets, renewals, standings, sent, until)
        if all(standings) or not (failure is None or isinstance(failure, LeaseGone)):
            break
    if failure is not None and not any(standings):
        raise failure
    return standings


async def _round(
    tickets: Tickets,
    renewals: list[_Renewal],
    standings: list[Standing | None],
    sent: float,
    until: float,
) -> CallFailed | None:
    """Keep the leases alive and renew the tickets, all at the same time. Returns the last failure."""
    leases = tickets.leases
    stale = {one.lease.id: one.lease for one in renewals if not one.lease.lives_for(one.ttl, sent)}
    batches = [renewals[start : start + BATCH] for start in range(0, len(renewals), BATCH)]
    calls: list[tuple[Method, Any]] = [leases.keep_alive(lease) for lease in stale.values()]
    for batch in batches:
        steps = [
            nested(
                [created_at(one.entry.key, one.view.fence)],
                looking.renewal(one.entry, one.view, one.change),
                [get(one.entry.pointer)],
            )
            for one in batch
        ]
        calls.append((TXN, txn(then=steps)))
    answers = await tickets.cluster.ask_all(calls, until)
    failure: CallFailed | None = None
    for lease, answer in zip(stale.values(), answers, strict=False):
        if isinstance(answer, CallFailed):
            failure = answer
        elif not leases.kept_alive(lease, answer, sent):
            failure = LeaseGone("the lease has expired", "not applied")
    for batch, answer in zip(batches, answers[len(stale) :], strict=True):
        if isinstance(answer, LeaseGone):
            leases.forget(*(one.lease for one in batch))
        if isinstance(answer, CallFailed):
            failure = answer
        else:
            revision = answer.header.revision
            for one, response in zip(batch, answer.responses, strict=True):
                renewal = response.response_txn
                if not renewal.succeeded:
                    if first(renewal.responses[0].response_range) is None:
                        standings[one.position] = Standing(Place.GONE)
                    else:
                        one.entry.view = View()  # it has joined anew, perhaps by another client
                elif changed := looking.changed_by_another(renewal.responses):
                    one.entry.adopt(changed, tickets.io.now())
                elif one.lease.until >= sent + one.ticket.ttl:
                    seen = looking.read_renewal(one.entry, one.view, renewal.responses)
                    one.entry.written(one.change.after, sent + one.ticket.ttl)
                    standing = await tickets.take_in(one.entry, seen, revision, until)
                    standings[one.position] = standing
                # Otherwise the ticket was renewed, but its lease was not, or is gone by now: no answer.
    return failure
