"""One attempt of a ticket to hold its name: a `Bid` driven over the links to the nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from typing import Any

from fencelock.core.ticket import Departure, Ticket
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.pending_releases import PendingReleases, Release
from fencelock.engines.redlock.protocol import Answer, Bid, Outcome, Vote, validity
from fencelock.engines.redlock.readmission import Readmission
from fencelock.engines.redlock.requests import grants, hint, raising, release, releases
from fencelock.engines.redlock.ticket_state import TicketState
from fencelock.engines.resp.script import floor_of
from fencelock.io.contract import IO

_TTL_SHARE = 0.2
"""The part of a ttl that a node may use up before it answers."""


class Bidding:
    """Makes bids, and takes back those that were refused."""

    def __init__(
        self, nodes: Nodes, readmission: Readmission, pending: PendingReleases, io: IO
    ) -> None:
        self._nodes = nodes
        self._readmission = readmission
        self._pending = pending
        self._io = io
        self._client = os.urandom(4).hex()
        self._numbers = count(1)

    def new_id(self, ticket: Ticket) -> str:
        """The id of a new bid. No other bid has it, also no bid of another client for the same ticket."""
        return f"{ticket.id}.{self._client}.{next(self._numbers)}"

    async def bid(self, links: NodeLinks, ticket: Ticket, state: TicketState, waits: bool) -> Bid:
        """One attempt. If it is refused, it is released at all nodes; if it is undecided, it stays there."""
        bid = Bid(len(self._nodes.all), state.fence)
        blank = False
        now = self._io.now()
        waited = now - state.since
        if waits:
            links.expect(ticket.id)
            self._subscribe(links, ticket, state)
        if state.withdrawn:
            state.begin_bid(self.new_id(ticket))
        state.elsewhere = False
        first = state.bids == 1 and not state.told
        bidder = ticket._replace(id=state.id)

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            nonlocal blank
            if replies is None:
                orders = bid.failed(node)
            else:
                answer = Answer.parse(replies[0])
                blank = blank or answer.vote is Vote.BLANK
                state.elsewhere = state.elsewhere or answer.ours
                orders = bid.answered(node, answer)
            return [raising(links, order.node, bidder, order.fence) for order in orders]

        # A holder that enters again sends its own fence. Under another fence a node that missed the first bid
        # would have the lock for it, and would never vote for the holder's fence.
        least = state.fence or max(hint(), floor_of(ticket.name, ticket.floor) + 1)
        requests = grants(links, bidder, least, state.channels, None if first else waited)
        state.asked_on, state.unheard = links, links.connected()
        state.told.update(state.unheard)
        timeout = min(self._nodes.node_timeout, ticket.ttl * _TTL_SHARE)
        await ask(self._nodes, links, requests, take, timeout, lambda: bid.outcome is not None)
        state.unheard = links.unanswered()
        if bid.outcome is Outcome.WON and validity(ticket.ttl, self._io.now() - now) <= 0:
            bid.outcome = Outcome.REFUSED
        if bid.outcome is Outcome.REFUSED:
            self.withdraw(links, bidder, state, waited if waits else None)
        if blank and bid.outcome is not Outcome.UNREACHABLE:
            self._readmission.start()
        return bid

    def withdraw(
        self, links: NodeLinks, bidder: Ticket, state: TicketState, waited: float | None = None
    ) -> None:
        """Release a bid at all nodes. With `waited` the ticket stays listed as a waiter."""
        state.withdrawn = True
        links.begin()
        withdrawn = Departure.WITHDRAWN
        for request in releases(links, bidder, state.fence, withdrawn, state.channels, waited):
            links.tell(*request)
        # A repeated release must not take the ticket off a node's list of waiters: by then it may be listed
        # for its next bid. So it names no channels.
        repeated = Release(bidder, state.fence, withdrawn, [""] * len(self._nodes.all))
        self._pending.track(links, links.connected(), state, repeated)

    def _subscribe(self, links: NodeLinks, ticket: Ticket, state: TicketState) -> None:
        """Choose the channel on which each node wakes the ticket, and remove entries that differ."""
        links.begin()
        listed = ticket if state.owner is None else ticket._replace(owner=state.owner)
        for node in links.connected():
            channel, before = links.channel(node), state.channels[node]
            if before and (before != channel or listed != ticket) and not state.fence:
                stale = release(links.runs[node], listed, 0, Departure.WITHDRAWN, before)
                links.tell(*Request.of(node, [stale]))
            state.channels[node] = channel
        state.owner = ticket.owner
