"""A ticket of ours that stands in a queue, and what was last seen of it."""

from __future__ import annotations

import math

from holdfast.core.ticket import Place, Standing, Ticket
from holdfast.engines.zookeeper.nodes import Mark, Slip, sequence
from holdfast.engines.zookeeper.requests import Stat
from holdfast.io.contract import Event


class Own:
    """What the client remembers, so that looking again takes no listing."""

    __slots__ = (
        "_promised",
        "abandoned",
        "ahead",
        "alive_until",
        "event",
        "fence",
        "holds",
        "marked",
        "node",
        "parent",
        "renewed",
        "session",
    )

    def __init__(self, parent: str, node: str, fence: int, session: int | None) -> None:
        self.parent = parent
        self.node = node
        self.fence = fence
        self.session = session
        """The session in which it was created, and with which it ends."""
        self.holds = False
        self.abandoned = False
        self.ahead: str | None = None
        """The node that it waits for; None if it never saw one."""
        self.alive_until = math.inf
        """Until when that one can't have expired, as far as was seen."""
        self.marked = fence
        """The transaction of the mark when the whole queue was last looked at."""
        self.event: Event | None = None
        """Set when there is news for whoever is parked."""
        self.renewed = False
        """Whether the news is that the one ahead is still there."""
        self._promised = -math.inf

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.node}"

    @property
    def path_ahead(self) -> str:
        return f"{self.parent}/{self.ahead}"

    def slip(self, ticket: Ticket, now: float) -> bytes:
        """What to write on its node: never less time than was promised before."""
        self.promise(ticket, now)
        return Slip(self._promised - now, ticket.owner).pack()

    def promise(self, ticket: Ticket, now: float) -> None:
        """Remember until when it was promised to be there."""
        self._promised = max(self._promised, now + ticket.ttl)

    def admit(self, abandoned: bool) -> Standing:
        """It is the first: note that, for it stays so."""
        self.holds, self.abandoned = True, abandoned
        return self.standing()

    def standing(self) -> Standing:
        return Standing(Place.ADMITTED, self.fence, self.abandoned)

    def finds_abandoned(self, mark: Mark, stat: Stat, now: float) -> bool:
        """Now that nobody is ahead any more: did the last holder depart without a word?

        A holder that departs leaves a mark in the same transaction; one whose session ended does not,
        and neither does a waiter that withdraws. If the one ahead left no mark but someone else has
        since, then it was a waiter that withdrew, provided that it was alive: else it may have become
        the holder and died.
        """
        mine = sequence(self.node)
        before = mine - 1 if self.ahead is None else sequence(self.ahead)
        if mark.seq == before or (mark.seq is None and mine == 0):
            return mark.abandoned
        if stat.mzxid > self.marked and now < self.alive_until:
            return mark.abandoned
        return True
