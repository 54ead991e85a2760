"""Renewing many tickets at once, and the leases on which they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fencelock.core.ticket import Place, Standing, Ticket
from fencelock.engines.etcd import requests
from fencelock.engines.etcd.keys import Card
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.messages_pb2 import TxnResponse
from fencelock.engines.etcd.queues import Queues
from fencelock.engines.etcd.seat import Seat, View
from fencelock.engines.etcd.troubles import CallFailed, LeaseGone
from fencelock.engines.etcd.wire import TXN, Method, txn

_CHUNK = 100
"""Tickets that are renewed in one transaction; etcd takes 128 steps by default."""


class _Renewal(NamedTuple):
    place: int
    ticket: Ticket
    seat: Seat
    view: View
    ttl: float
    card: Card
    lease: Lease


async def renew(queues: Queues, tickets: Sequence[Ticket], until: float) -> list[Standing | None]:
    """How each stands; None for one of which nothing was heard. `CallFailed` if that is all of them."""
    standings: list[Standing | None] = [None] * len(tickets)
    failure: CallFailed | None = None
    for _ in range(2):  # a second time for those whose lease turned out to be gone
        sent = queues.io.now()
        renewals: list[_Renewal] = []
        for index, ticket in enumerate(tickets):
            if standings[index] is None:
                seat = queues.seats.get(ticket.id)
                if seat is None or not seat.view.fence:
                    seat = await queues.find(ticket, until)
                if seat is None:
                    standings[index] = Standing(Place.GONE)
                else:
                    ttl, view = seat.stated(ticket, sent), seat.view
                    lease = await queues.leases.any_for(ttl, until)
                    card = seat.due(ticket, ttl, lease)
                    renewals.append(_Renewal(index, ticket, seat, view, ttl, card, lease))
        failure = await _round(queues, renewals, standings, sent, until)
        if not isinstance(failure, LeaseGone):
            break
    if failure is not None and not any(standings):
        raise failure
    return standings


async def _round(
    queues: Queues,
    renewals: list[_Renewal],
    standings: list[Standing | None],
    sent: float,
    until: float,
) -> CallFailed | None:
    """Keep the leases alive and renew the tickets, all at the same time; the worst that happened."""
    leases = queues.leases
    stale = {one.lease.id: one.lease for one in renewals if leases.stale(one.lease, one.ttl, sent)}
    chunks = [renewals[start : start + _CHUNK] for start in range(0, len(renewals), _CHUNK)]
    calls: list[tuple[Method, Any]] = [leases.keep_alive(lease) for lease in stale.values()]
    for chunk in chunks:
        steps = [requests.renew(one.seat, one.view, one.card, one.lease) for one in chunk]
        calls.append((TXN, txn(then=steps)))
    answers = await queues.cluster.ask_all(calls, until)
    failure: CallFailed | None = None
    for lease, answer in zip(stale.values(), answers, strict=False):
        if isinstance(answer, CallFailed):
            failure = answer
        elif not leases.kept(lease, answer, sent):
            failure = LeaseGone("the lease has expired", "not applied")
    for chunk, answer in zip(chunks, answers[len(stale) :], strict=True):
        if isinstance(answer, LeaseGone):
            leases.forget(*(one.lease for one in chunk))
        if isinstance(answer, CallFailed):
            failure = answer
        else:
            await _take_in(queues, chunk, answer, standings, sent, until)
    return failure


async def _take_in(
    queues: Queues,
    chunk: list[_Renewal],
    answer: TxnResponse,
    standings: list[Standing | None],
    sent: float,
    until: float,
) -> None:
    for one, op in zip(chunk, answer.responses, strict=True):
        told = op.response_txn
        if not told.succeeded:
            standings[one.place] = Standing(Place.GONE)
        elif one.lease.until >= sent + one.ticket.ttl:
            seen = requests.renewed(one.seat, one.view, told.responses)
            one.seat.renewed(one.card, one.lease, sent + one.ticket.ttl)
            standings[one.place] = await queues.seated(
                one.seat, seen, answer.header.revision, until
            )
        # Else it was renewed, but what it lives on was not, or is gone by now: not an answer.
