"""Tickets that another client has entered: finding them at the nodes, and going on with them.

A ticket holds if a majority of nodes has it under one fence, whichever client made the bid. A takeover is a
renewal with that fence which also gives the lock a bid of this client. The other client may not know yet
that it has won, and release its bid when it finds that the answers came too late. That must not end the
lease which this client has confirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any

from fencelock.core.ticket import Ticket
from fencelock.engines.redlock.asking import Request, ask
from fencelock.engines.redlock.bidding import Bidding
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.protocol import Tally, Vote, majority, validity
from fencelock.engines.redlock.requests import finds, takeovers
from fencelock.engines.redlock.ticket_state import TicketState
from fencelock.io.contract import IO


class Taken(Enum):
    """What became of a takeover."""

    OVER = "over"
    """The ticket holds, and this client goes on with it."""
    LISTED = "listed"
    """It does not hold. Nodes list it as a waiter."""
    GONE = "gone"
    UNDECIDED = "undecided"


class Takeover:
    """Takes over tickets from other clients."""

    def __init__(self, nodes: Nodes, bidding: Bidding, io: IO) -> None:
        self._nodes = nodes
        self._bidding = bidding
        self._io = io

    async def take_over(
        self, links: NodeLinks, sought: Sequence[tuple[Ticket, TicketState]], timeout: float
    ) -> list[Taken]:
        """Go on with these tickets if they hold: two requests to each node for all of them."""
        limit = min(self._nodes.node_timeout, timeout)
        found = [_Found(len(self._nodes.all)) for _ in sought]

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            for one, reply in zip(found, replies or (), strict=False):
                one.answered(reply)
            return ()

        requests = finds(links, [ticket for ticket, _ in sought])
        await ask(self._nodes, links, requests, take, limit, lambda: all(one.done for one in found))
        results = [one.result for one in found]
        holding = [at for at, result in enumerate(results) if result is Taken.OVER]
        outcomes = await self._take(links, [(*sought[at], found[at]) for at in holding], limit)
        for at, outcome in zip(holding, outcomes, strict=True):
            results[at] = outcome
        return results

    async def _take(
        self, links: NodeLinks, holders: list[tuple[Ticket, TicketState, _Found]], limit: float
    ) -> list[Taken]:
        if not holders:
            return []
        began = self._io.now()
        tallies = [Tally(len(self._nodes.all)) for _ in holders]
        wanted = []
        for ticket, state, found in holders:
            state.begin_bid(self._bidding.new_id(ticket))
            state.asked_on, state.unheard = links, links.connected()
            state.told.update(state.unheard)
            wanted.append((ticket._replace(id=state.id), found.fence, state.channels))

        def take(node: int, replies: list[Any] | None) -> Sequence[Request]:
            for tally, reply in zip(tallies, replies or (), strict=False):
                if reply != Vote.BLANK:
                    tally.answered(reply == 1)
            return ()

        requests = takeovers(links, wanted)
        decided = lambda: all(tally.outcome is not None for tally in tallies)  # noqa: E731
        await ask(self._nodes, links, requests, take, limit, decided)
        elapsed = self._io.now() - began
        results = []
        for (ticket, state, found), tally in zip(holders, tallies, strict=True):
            state.unheard = links.unanswered()
            if tally.outcome and validity(ticket.ttl, elapsed) > 0:
                state.fence, state.abandoned = found.fence, found.abandoned
                results.append(Taken.OVER)
            elif tally.outcome is False:
                # It ended since it was found. What is left of it must not keep others waiting.
                self._bidding.withdraw(links, ticket._replace(id=state.id), state)
                results.append(Taken.GONE)
            else:
                results.append(Taken.UNDECIDED)
        return results


class _Found:
    """What the nodes say about one ticket."""

    def __init__(self, nodes: int) -> None:
        self._enough = majority(nodes)
        self._missing = nodes
        self._fences: Counter[int] = Counter()
        self._dirty = self._clean = 0
        self._listed = False

    def answered(self, reply: Sequence[int]) -> None:
        if reply[0] == Vote.BLANK:
            return
        self._missing -= 1
        if reply[0] == Vote.GRANTED:
            _, fence, dirty, clean = reply
            self._fences[fence] += 1
            self._dirty, self._clean = max(self._dirty, dirty), max(self._clean, clean)
        else:
            self._listed = self._listed or reply[1] == 1

    @property
    def fence(self) -> int:
        """The fence that most of the nodes have that have the ticket."""
        return self._fences.most_common(1)[0][0] if self._fences else 0

    @property
    def abandoned(self) -> bool:
        return self._dirty > self._clean

    @property
    def result(self) -> Taken:
        votes = self._fences[self.fence]
        if votes >= self._enough:
            return Taken.OVER
        if votes + self._missing >= self._enough:
            return Taken.UNDECIDED
        return Taken.LISTED if self._listed else Taken.GONE

    @property
    def done(self) -> bool:
        return self.result is not Taken.UNDECIDED
