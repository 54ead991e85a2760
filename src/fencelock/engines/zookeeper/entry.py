"""What this client knows of a ticket of its own that is in a queue."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from fencelock.core.ticket import ALONE, Place, Share, Standing, Ticket
from fencelock.engines.zookeeper.admission import ADMITTED, Blockers
from fencelock.engines.zookeeper.batch import wake
from fencelock.engines.zookeeper.nodes import HolderRecord, TicketData, sequence, share_of
from fencelock.io.contract import Event


@dataclass(slots=True, eq=False)
class Entry:
    """A ticket of ours in a queue. With what it remembers, looking again needs no listing."""

    parent: str
    node: str
    fence: int
    session: int | None
    """The session that created the node. The node ends with it."""
    data: bytes = b""
    """What was last written to the node."""
    share: Share = ALONE
    holds: bool = False
    abandoned: bool = False
    blockers: Blockers = ADMITTED
    """What the ticket waits for, or waited for before it was admitted."""
    alive: dict[str, float] = field(default_factory=dict)
    """Until when each blocker can't have expired, as far as this client knows."""
    record_zxid: int = 0
    """The transaction of the holder record when the whole queue was last read."""
    event: Event | None = None
    """Set when there is news for the caller that is parked."""
    released: bool = False
    """News: the ticket ahead held alone and has released, so this ticket holds."""
    changed: set[str] = field(default_factory=set)
    """News: these blockers have changed, but are there."""
    gone: bool = False
    """News: a blocker is gone, or the watches are lost."""
    interrupted: bool = False
    """Whether the caller that is parked has to come back without news."""
    downgrade: str | None = None
    """The node that says that the ticket shares, although it joined to hold alone. If `share` does not say
    so, no answer said that the node is there."""
    _promised: float = -math.inf
    """Until when the ticket was promised to be there."""

    def __post_init__(self) -> None:
        self.share = share_of(self.node)
        self.record_zxid = self.fence

    @property
    def path(self) -> str:
        return f"{self.parent}/{self.node}"

    @property
    def ahead(self) -> str | None:
        """The newest blocker."""
        return self.blockers.nodes[-1] if self.blockers.nodes else None

    @property
    def alive_until(self) -> float:
        """Until when the newest blocker can't have expired."""
        return self.alive.get(self.ahead or "", math.inf)

    def wake(self) -> None:
        """Wake the caller that is parked with the ticket."""
        if (event := self.event) is not None:
            wake(event)

    def path_of(self, node: str) -> str:
        return f"{self.parent}/{node}"

    def renewed_data(self, ticket: Ticket, now: float) -> bytes:
        """What a renewal writes to the node: never less time than was promised before."""
        self._promised = max(self._promised, now + ticket.ttl)
        left = self._promised - now
        self.data = TicketData(left, ticket.owner, self.downgrade is not None).pack()
        return self.data

    def standing(self) -> Standing:
        """How the ticket stands once it holds."""
        return Standing(Place.ADMITTED, self.fence, self.abandoned)

    def record_to_write(self, record: HolderRecord, first: str) -> HolderRecord | None:
        """What to record when the ticket is admitted; None if the record says the right thing already.

        The record tells later holders whether it matters if this ticket vanishes. Among tickets that share,
        the first one writes it.
        """
        if self.share.group:
            state, needed = "shared", record.state != "shared" and first == self.node
        else:
            state, needed = "held", record.state == "shared" and not self.abandoned
        return HolderRecord(sequence(self.node), self.abandoned, state) if needed else None

    def finds_abandoned(self, record: HolderRecord, stat: Any, first: str, now: float) -> bool:
        """Now that the ticket is admitted: did the last ticket that held alone vanish?

        The record of a ticket that holds says it. A holder that departs writes a record in the same
        transaction. A session that ends writes none, and neither does a waiter that withdraws. So if the
        last change of the queue is that record, the last holder departed. If the ticket ahead left no
        record but another ticket has since, then the ticket ahead was a waiter that withdrew, provided that
        it was alive: otherwise it may have become the holder and died. Only the first of the
        tickets that share has to find out.
        """
        mine = sequence(self.node)
        if record.state:
            return record.abandoned or (record.state == "held" and record.seq != mine)
        last = -1 if record.seq is None else record.seq
        departed = (
            stat.mzxid == stat.pzxid
            or first != self.node
            or last + 1 == mine
            or (self.ahead is not None and last == sequence(self.ahead))
            or (stat.mzxid > self.record_zxid and now < self.alive_until)
        )
        return record.abandoned if departed else True
