"""A ticket of ours that stands in a queue, and what was last seen of it."""

from __future__ import annotations

import math

from fencelock.core.ticket import Place, Share, Standing, Ticket
from fencelock.engines.zookeeper.nodes import Mark, Slip, sequence, share_of
from fencelock.engines.zookeeper.requests import Stat
from fencelock.io.contract import Event


class Own:
    """What the client remembers, so that looking again takes no listing."""

    __slots__ = (
        "_promised",
        "abandoned",
        "alive",
        "blockers",
        "changed",
        "data",
        "decisive",
        "event",
        "farewell",
        "fence",
        "gone",
        "holds",
        "marked",
        "node",
        "parent",
        "roused",
        "session",
        "share",
        "short",
        "succeeds",
        "turn",
        "turned_ahead",
        "turning",
    )

    def __init__(self, parent: str, node: str, fence: int, session: int | None) -> None:
        self.parent = parent
        self.node = node
        self.share: Share = share_of(node)
        self.fence = fence
        self.session = session
        """The session in which it was created, and with which it ends."""
        self.holds = False
        self.abandoned = False
        self.blockers: tuple[str, ...] = ()
        """The nodes that it waits for; none if it never saw one. See `admission.py`."""
        self.decisive = True
        """Whether it waits as long as these are there."""
        self.turned_ahead: frozenset[str] = frozenset()
        """Those of them that are known to have turned to share."""
        self.short = False
        """Whether it was short of permits when the whole queue was last looked at."""
        self.alive: dict[str, float] = {}
        """Until when each of these can't have expired, as far as was seen."""
        self.marked = fence
        """The transaction of the mark when the whole queue was last looked at."""
        self.event: Event | None = None
        """Set when there is news for whoever is parked."""
        self.farewell: str | None = None
        """What the one ahead says when it releases, if that is listened for."""
        self.succeeds = False
        """The news: that was said, so it is this one's turn."""
        self.changed: set[str] = set()
        """The news: those that have changed, but are there."""
        self.gone = False
        """The news: one is gone, or nothing is known any more."""
        self.roused = False
        """Whether whoever is parked is to come back without news."""
        self.data = b""
        """What was last written on its node."""
        self.turn: str | None = None
        """The node that says that it shares, although it joined to hold alone."""
        self.turning = False
        """Whether that may be there, because no answer said what became of it."""
        self._promised = -math.inf

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.node}"

    @property
    def ahead(self) -> str | None:
        """The newest of those that it waits for."""
        return self.blockers[-1] if self.blockers else None

    @property
    def alive_until(self) -> float:
        """Until when that one can't have expired, as far as was seen."""
        return self.alive.get(self.blockers[-1], math.inf) if self.blockers else math.inf

    @property
    def has_news(self) -> bool:
        return self.succeeds or self.gone or bool(self.changed)

    @property
    def paths(self) -> list[str]:
        """Of those that it waits for."""
        return [f"{self.parent}/{node}" for node in self.blockers]

    def slip(self, ticket: Ticket, now: float) -> bytes:
        """What to write on its node: never less time than was promised before."""
        self.promise(ticket, now)
        self.data = Slip(self._promised - now, ticket.owner, self.turn is not None).pack()
        return self.data

    def promise(self, ticket: Ticket, now: float) -> None:
        """Remember until when it was promised to be there."""
        self._promised = max(self._promised, now + ticket.ttl)

    def admit(self, abandoned: bool) -> Standing:
        """It holds: note that, for it stays so."""
        self.holds, self.abandoned = True, abandoned
        return self.standing()

    def standing(self) -> Standing:
        return Standing(Place.ADMITTED, self.fence, self.abandoned)

    def noted(self, mark: Mark, first: str) -> Mark | None:
        """What to write down when it is admitted, so that others notice, or don't mind, if it vanishes.

        For those who share the first of them does that.
        """
        if self.share.group:
            needed = mark.state != "shared" and first == self.node
        else:
            needed = mark.state == "shared" and not self.abandoned
        if not needed:
            return None
        state = "shared" if self.share.group else "held"
        return Mark(sequence(self.node), self.abandoned, state)

    def finds_abandoned(self, mark: Mark, stat: Stat, first: str, now: float) -> bool:
        """Now that it is admitted: did the last one that held alone depart without a word?

        Marks of those who hold say it themselves. One that departs leaves a mark in the same transaction; one
        whose session ended does not, and neither does a waiter that withdraws. If the one ahead left no mark
        but someone else has since, then it was a waiter that withdrew, provided that it was alive: else it
        may have become the holder and died. What only the first of those who share can know is left to it.
        """
        mine = sequence(self.node)
        if mark.state:
            return mark.abandoned or (mark.state == "held" and mark.seq != mine)
        last = -1 if mark.seq is None else mark.seq
        if first != self.node or last + 1 == mine:
            return mark.abandoned
        if self.ahead is not None and last == sequence(self.ahead):
            return mark.abandoned
        if stat.mzxid > self.marked and now < self.alive_until:
            return mark.abandoned
        return True
