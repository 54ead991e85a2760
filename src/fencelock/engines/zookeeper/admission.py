"""Which tickets of a queue are admitted, and which nodes the others watch. All clients decide alike.

Whether a ticket is admitted follows from the tickets ahead of it. A ticket that waits watches what must
change first:

- It would hold alone: the ticket right ahead has to go.
- It shares and its group has room, but a ticket outside its group is ahead: the newest such ticket has to go.
  So all tickets that this admits are woken at once, and no others.
- Its group is short of permits, and it is the first ticket that is, or a single peer ahead could give
  back enough: any of the peers ahead may be the one that goes.
- Otherwise the peer right ahead is short of permits, too. It has to go or to be admitted; then it
  changes its node to wake this ticket.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.core.admission import fits
from fencelock.core.ticket import Share
from fencelock.engines.zookeeper.nodes import in_order, is_downgrade, sequence, share_of


class Blockers(NamedTuple):
    """The nodes that a ticket waits for; none if it is admitted."""

    nodes: tuple[str, ...] = ()
    short: bool = False
    """Whether the ticket's group has too few permits left for it."""
    decisive: bool = True
    """Whether the ticket has to wait as long as these nodes are there."""
    downgraded: frozenset[str] = frozenset()
    """The nodes whose tickets share now, though they joined to hold alone."""


ADMITTED = Blockers()


class Listing(NamedTuple):
    """The tickets of one queue, in order."""

    nodes: list[str]
    downgrades: dict[int, str]
    """By a ticket's sequence number, the node that says that it shares now."""

    @classmethod
    def of(cls, children: Sequence[str]) -> Listing:
        found = {sequence(node): node for node in children if node[0] == "t" and is_downgrade(node)}
        return cls(in_order(children), found)

    def share(self, node: str) -> Share:
        return share_of(self.downgrade_of(node) or node)

    def downgrade_of(self, node: str) -> str | None:
        return self.downgrades.get(sequence(node)) if self.downgrades else None

    def holders(self) -> list[str]:
        holding: list[Share] = []
        for node in self.nodes:
            share = self.share(node)
            if not fits(share, holding):
                break
            holding.append(share)
        return self.nodes[: len(holding)]

    def blockers_of(self, node: str) -> Blockers:
        """What a ticket of this queue waits for."""
        if self.nodes[0] == node:
            return ADMITTED
        ahead = self.nodes[: self.nodes.index(node)]
        share = self.share(node)
        if not share.group:
            return Blockers((ahead[-1],))
        shares = {other: self.share(other) for other in ahead}
        strangers = [other for other in ahead if shares[other].group != share.group]
        peers = [other for other in ahead if shares[other].group == share.group]
        used = sum(shares[other].weight for other in peers)
        lacking = used + share.weight - share.permits if share.weight else 0
        nodes, short, decisive = strangers[-1:], lacking > 0 and bool(peers), True
        if short:
            heaviest = max(shares[other].weight for other in peers)
            decisive = used <= share.permits or lacking <= heaviest
            nodes = peers if decisive else peers[-1:]
        return Blockers(tuple(nodes), short, decisive, frozenset(filter(self.downgrade_of, nodes)))

    def has_peer_behind(self, node: str) -> bool:
        """Whether a ticket of the same group is behind a ticket."""
        group = self.share(node).group
        behind = self.nodes[self.nodes.index(node) + 1 :]
        return any(share_of(other).group == group for other in behind)
