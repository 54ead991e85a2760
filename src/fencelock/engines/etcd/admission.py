"""Whether a ticket that shares is admitted, and if not, of whom it has to hear. All decide alike.

Those ahead of it in the queue are all that matters. It is admitted if they are all of its group and the
group's permits suffice for them and for itself. If not, something must happen first, and that it watches:

- It has room in its group, but somebody else is ahead: the newest of these has to go. So all whom that lets
  in hear of it at once, and nobody else does.
- It is **short** of permits, but the first one that is, or of no more than a single peer ahead could give
  back: enough of these have to go. Again all whom that lets in hear of it.
- Else the peer right ahead is short as well, and has to go, or to find room. It calls when it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.core.ticket import ALONE, Share
from fencelock.engines.etcd.keys import Card
from fencelock.engines.etcd.messages_pb2 import KeyValue


class Ahead(NamedTuple):
    """A ticket ahead of another one, as it was last seen."""

    key: bytes
    fence: int
    version: int
    ttl: float
    share: Share = ALONE
    calls: int = 0

    @classmethod
    def read(cls, kv: KeyValue) -> Ahead:
        card = Card.unpack(kv.value)
        return cls(kv.key, kv.create_revision, kv.mod_revision, card.ttl, card.share, card.calls)

    def only_renewed(self, earlier: Ahead) -> bool:
        """Whether nothing else has happened to it since."""
        return self.share == earlier.share and self.calls == earlier.calls


class Crowd(NamedTuple):
    """Who is ahead of a ticket that shares, seen in one moment."""

    strangers: Sequence[Ahead]
    """The newest of those that joined otherwise. One that held alone and shares by now is among them."""
    peers: Sequence[Ahead] = ()
    """The oldest of those that joined to share with it; of no interest if it takes no permits."""
    all_peers: bool = True
    newest_peer: Sequence[Ahead] = ()


class Finding(NamedTuple):
    """What a ticket has to hear of; nothing if it is admitted."""

    ahead: tuple[Ahead, ...] = ()
    lacking: int = 0
    short: bool = False


def find(share: Share, crowd: Crowd) -> Finding | None:
    """Where a ticket stands behind a crowd; None: more of its peers have to be seen."""
    strangers = [one for one in crowd.strangers if one.share.group != share.group]
    turned = [one for one in crowd.strangers if one.share.group == share.group]
    peers = [*turned, *crowd.peers]
    used = sum(one.share.weight for one in peers)
    if not crowd.all_peers and used <= share.permits:
        return None
    lacking = used + share.weight - share.permits if share.weight else 0
    if lacking > 0 and peers:
        is_next = used <= share.permits or lacking <= max(one.share.weight for one in peers)
        if crowd.all_peers and is_next:
            return Finding(tuple(one for one in peers if one.share.weight), lacking, short=True)
        return Finding((*crowd.newest_peer, *turned)[:1], short=True)
    if strangers:
        return Finding((max(strangers, key=lambda one: one.fence),))
    return Finding()
