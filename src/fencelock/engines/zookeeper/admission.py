"""Who of a queue is admitted, and of whom the others have to hear. All see the same list and decide alike.

Whether a ticket is admitted follows from those ahead of it. One that may not yet has to hear of what must
happen first:

- One that would hold alone: the one right ahead has to go.
- It shares and has room in its group, but somebody else is ahead: the newest of these has to go. So all whom
  that lets in hear of it at once, and nobody else does.
- It is short of permits, but the first one that is, or of no more than a single peer ahead could give back:
  any of these may be the one that goes.
- Else the peer right ahead is short as well, and has to go, or to find room. It calls when it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.core.admission import fits
from fencelock.core.ticket import Share
from fencelock.engines.zookeeper.nodes import in_order, is_turn, sequence, share_of


class Finding(NamedTuple):
    """The nodes of which a ticket has to hear; none if it is admitted."""

    ahead: tuple[str, ...] = ()
    short: bool = False
    decisive: bool = True
    """Whether it waits as long as nothing but renewals happens to these."""
    turned: frozenset[str] = frozenset()
    """Those of them that have turned to share."""


ADMITTED = Finding()


class Line(NamedTuple):
    """A queue, in order."""

    nodes: list[str]
    turned: dict[int, str]
    """By the number of a ticket, the node that says that it shares by now."""

    @classmethod
    def of(cls, children: Sequence[str]) -> Line:
        turned = {sequence(node): node for node in children if node[0] == "t" and is_turn(node)}
        return cls(in_order(children), turned)

    def share(self, node: str) -> Share:
        return share_of(self.turn_of(node) or node)

    def turn_of(self, node: str) -> str | None:
        return self.turned.get(sequence(node)) if self.turned else None

    def holders(self) -> list[str]:
        holding: list[Share] = []
        for node in self.nodes:
            share = self.share(node)
            if not fits(share, holding):
                break
            holding.append(share)
        return self.nodes[: len(holding)]

    def find(self, node: str) -> Finding:
        """Where a ticket stands that is in the line."""
        if self.nodes[0] == node:
            return ADMITTED
        ahead = self.nodes[: self.nodes.index(node)]
        share = self.share(node)
        if not share.group:
            return Finding((ahead[-1],))
        shares = {other: self.share(other) for other in ahead}
        strangers = [other for other in ahead if shares[other].group != share.group]
        peers = [other for other in ahead if shares[other].group == share.group]
        used = sum(shares[other].weight for other in peers)
        lacking = used + share.weight - share.permits if share.weight else 0
        if lacking > 0 and peers:
            if used <= share.permits or lacking <= max(shares[other].weight for other in peers):
                turned = frozenset(other for other in peers if self.turn_of(other))
                return Finding(tuple(peers), short=True, turned=turned)
            return Finding((peers[-1],), short=True, decisive=False)
        turned = frozenset(other for other in strangers[-1:] if self.turn_of(other))
        return Finding(tuple(strangers[-1:]), turned=turned)

    def has_peer_behind(self, node: str) -> bool:
        """Whether somebody behind a ticket is of its group."""
        group = self.share(node).group
        behind = self.nodes[self.nodes.index(node) + 1 :]
        return any(share_of(other).group == group for other in behind)
