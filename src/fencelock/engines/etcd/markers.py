"""The marker: a key per name that tells a new holder whether the last one released.

It exists from the moment a ticket joins an empty queue to hold alone until the last ticket leaves the queue.
It says how the last holder that left by a request did so. No client writes it when the lock is handed on, and
a holder that just vanishes does not change it. So the first ticket in the queue can tell from the marker, and
from when it was written, whether another ticket was first in between:

- **held**: by the ticket that joined an empty queue, or that was admitted while the marker told nothing.
  If that is not the ticket that asks, it has vanished.
- **released**: by a holder with others behind it. If the ticket that was first then would have held alone,
  and is not the ticket that asks, it has vanished since.
- **abandoned**: the last ticket that held alone was lost or was taken out.

Tickets that share leave things as they found them: no marker, or one that says the same. If they vanish, the
marker tells nothing. A ticket that is then admitted to hold alone writes that it holds.

The marker lives on a lease of one to two days, in case no client comes to tidy up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.cluster import Cluster
from fencelock.engines.etcd.entry import Entry
from fencelock.engines.etcd.errors import Compacted, LeaseGone
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.leases import Lease, Leases
from fencelock.engines.etcd.messages_pb2 import RangeRequest, TxnRequest, TxnResponse
from fencelock.engines.etcd.values import Marker, Record
from fencelock.engines.etcd.wire import (
    BATCH,
    Part,
    changed_at,
    created_at,
    delete,
    first,
    nested,
    newest,
    none_before,
    oldest,
    put,
    txn,
)

State = Literal["held", "released", "abandoned"]


class Meaning(NamedTuple):
    """What the marker means to a ticket that is admitted."""

    abandoned: bool
    tells: bool = True
    """Whether the marker would tell others if this ticket held alone and vanished."""


def meaning(marker: Marker, fence: int, before: Iterable[int]) -> Meaning | None:
    """What a marker means to the ticket with this fence, which was behind tickets with the fences `before`.

    None: that depends on which ticket was first in the queue when the marker was written.
    """
    if marker.state == "held":
        return Meaning((marker.fence or marker.revision) != fence)
    if marker.state == "abandoned":
        return Meaning(True)
    return Meaning(False) if marker.fence in before else None


class Markers:
    """Reads and writes markers. Sometimes it has to read etcd's past to know what one means."""

    def __init__(self, cluster: Cluster, leases: Leases) -> None:
        self._cluster = cluster
        self._leases = leases

    async def write(self, request: Callable[[Lease], TxnRequest], until: float) -> TxnResponse:
        """Send a request that may write a marker. If the lease for markers is gone, use a new one."""
        while True:
            lease = await self._leases.markers(until)
            try:
                return await self._cluster.txn(request(lease), until)
            except LeaseGone:
                self._leases.forget(lease)

    async def is_abandoned(
        self, entry: Entry, fence: int, marker: Marker | None, until: float
    ) -> bool | None:
        """Whether a ticket that is admitted finds the name abandoned. None: the marker changed meanwhile."""
        before = [one.fence for one in entry.view.ahead]
        known = None if marker is None else meaning(marker, fence, before)
        found = known or await self.meaning(entry.keys, fence, marker, until)
        # Tickets that share write the marker to save those that come after them the look into the past.
        if (marker is None or known is not None) if entry.shares else found.tells:
            return found.abandoned

        def replace(lease: Lease) -> TxnRequest:
            """Replace the marker if the ticket is still there, and the marker has not changed."""
            revision = 0 if marker is None else marker.revision
            same = [created_at(entry.key, fence), changed_at(entry.keys.marker, revision)]
            if entry.shares:
                return txn(same, [mark_for_sharers(entry.keys, found.abandoned, lease)])
            return txn(same, [mark(entry.keys, "held", fence, lease)])

        return found.abandoned if (await self.write(replace, until)).succeeded else None

    async def meaning(self, keys: Keys, fence: int, marker: Marker | None, until: float) -> Meaning:
        """What a marker means to the ticket with this fence, if nothing is known of the tickets before it."""
        if marker is None:
            return Meaning(False, tells=False)
        known = meaning(marker, fence, ())
        if known is not None:
            return known
        then = oldest(keys.queue, keys.end, 1)["request_range"]
        try:
            answer = await self._cluster.read(RangeRequest(**then, revision=marker.revision), until)
        except Compacted:
            return Meaning(True)  # a warning too many is better than one too few
        was_first = first(answer)
        if was_first is None or Record.unpack(was_first.value).share.group:
            return Meaning(False, tells=False)
        return Meaning(was_first.create_revision != fence)


def mark(keys: Keys, state: State, fence: int, markers: Lease) -> Part:
    value = f"{state} {fence} {time.time():.3f}"
    return put(keys.marker, value.encode(), markers.id)


def mark_for_sharers(keys: Keys, abandoned: bool, markers: Lease) -> Part:
    """The marker that tickets that share leave behind: "abandoned" if they found the name so, else none."""
    return mark(keys, "abandoned", 0, markers) if abandoned else delete(keys.marker)


def removal(keys: Keys, expired: Sequence[Ahead], markers: Lease, *, before: int = 0) -> TxnRequest:
    """Take out tickets that have expired, unless one was renewed. If the first of them held alone, mark it.

    The last answer has the newest tickets that are left `before` a fence. That is how a client sees the
    other tickets of a row that died together.
    """
    oldest_one = min(expired, key=lambda one: one.fence)
    steps = [delete(key) for one in expired for key in (one.key, keys.pointer(one.id))]
    if not oldest_one.share.group:
        is_first = none_before(keys.queue, keys.end, oldest_one.fence)
        steps.append(nested([is_first], [mark(keys, "abandoned", oldest_one.fence, markers)]))
    same = [changed_at(one.key, one.version) for one in expired]
    return txn(same, [*steps, newest(keys.queue, keys.end, BATCH, before=before)])
