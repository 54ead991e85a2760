"""Whether a ticket that shares is admitted, and if not, what it must wait for. All clients decide alike.

Only the tickets ahead of it in the queue matter. It is admitted if all of them are of its group, and the
group's permits suffice for them and for itself. If not, it watches what must happen first:

- It has room in its group, but a ticket of another group is ahead: the newest of these must go. Every ticket
  that this admits watches it, and no other ticket does.
- It is **short** of permits, and it is the first such ticket, or a single peer ahead could give back all that
  it lacks: enough of its peers must go. Again every ticket that this admits watches them.
- Otherwise the peer right ahead is short as well. That peer must go, or find room. It signals when it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.core.ticket import ALONE, Share
from fencelock.engines.etcd.messages_pb2 import KeyValue
from fencelock.engines.etcd.values import Record


class Ahead(NamedTuple):
    """A ticket ahead of another one, as it was last seen."""

    key: bytes
    fence: int
    version: int
    """The revision of its last change."""
    ttl: float
    share: Share = ALONE
    signals: int = 0
    id: str = ""

    @classmethod
    def read(cls, kv: KeyValue) -> Ahead:
        record = Record.unpack(kv.value)
        fence, version = kv.create_revision, kv.mod_revision
        return cls(kv.key, fence, version, record.ttl, record.share, record.signals, record.id)

    def only_renewed(self, earlier: Ahead) -> bool:
        """Whether nothing but renewals has happened to it since."""
        return self.share == earlier.share and self.signals == earlier.signals


class QueueAhead(NamedTuple):
    """The tickets ahead of one that shares, seen at one moment."""

    others: Sequence[Ahead]
    """The newest tickets outside the group's keys. One that held alone and shares now is among them."""
    peers: Sequence[Ahead] = ()
    """The oldest of the tickets that joined to share with it. Left out if it takes no permits."""
    all_peers: bool = True
    """Whether these are all its peers."""
    newest_peer: Sequence[Ahead] = ()


class Blockers(NamedTuple):
    """The tickets that a ticket waits for. None of them: it is admitted."""

    ahead: tuple[Ahead, ...] = ()
    lacking: int = 0
    """How much weight of them must go before the ticket looks again. 0: it looks when any of them goes."""
    short: bool = False
    """Whether the ticket is short of permits."""

    @property
    def decisive(self) -> bool:
        """Whether the ticket keeps waiting as long as these are renewed and nothing else happens to them."""
        return bool(self.ahead) and (self.lacking > 0 or not self.short)


def blockers(share: Share, queue: QueueAhead) -> Blockers | None:
    """What a ticket waits for behind these tickets. None: the caller must look at more of its peers."""
    others = [one for one in queue.others if one.share.group != share.group]
    converted = [one for one in queue.others if one.share.group == share.group]
    peers = [*converted, *queue.peers]
    used = sum(one.share.weight for one in peers)
    if not queue.all_peers and used <= share.permits:
        return None
    lacking = used + share.weight - share.permits if share.weight else 0
    if lacking > 0 and peers:
        is_next = used <= share.permits or lacking <= max(one.share.weight for one in peers)
        if queue.all_peers and is_next:
            return Blockers(tuple(one for one in peers if one.share.weight), lacking, short=True)
        return Blockers((*queue.newest_peer, *converted)[:1], short=True)
    if others:
        return Blockers((max(others, key=lambda one: one.fence),))
    return Blockers()
