"""The transaction with which a ticket joins a queue. There are four forms of it.

A ticket that holds alone and a ticket that shares ask different questions. With `if_free` a ticket joins only
if that admits it at once. If the ticket is in the queue already, each form renews it and looks again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencelock.engines.etcd.admission import Blockers
from fencelock.engines.etcd.entry import Entry, View
from fencelock.engines.etcd.leases import Lease
from fencelock.engines.etcd.looking import Seen, read_search, renew_or_read, search, tickets
from fencelock.engines.etcd.messages_pb2 import ResponseOp, TxnRequest, TxnResponse
from fencelock.engines.etcd.values import Marker, Record, marker_value
from fencelock.engines.etcd.wire import (
    Part,
    created_at,
    first,
    get,
    nested,
    newest,
    none_after,
    put,
    txn,
)


class Joined(NamedTuple):
    """The ticket joined."""

    seen: Seen
    marked: bool = False
    """Whether nothing at all was there, so that the ticket wrote the marker."""


class Refused(NamedTuple):
    """The ticket did not join. It was allowed to do so only if that admits it at once."""

    seen: Seen


class Present(NamedTuple):
    """The ticket was in the queue already."""

    fence: int
    renewal: Sequence[ResponseOp]
    """The answers for `read_renewal`. Empty if the fence was not known."""


class Join(NamedTuple):
    """A ticket about to join, and with what."""

    entry: Entry
    view: View
    record: Record
    lease: Lease
    markers: Lease
    if_free: bool
    free_at: int = 0
    """If not 0: at this revision nothing stood in the way of a ticket that shares."""
    all_peers: bool = False

    def request(self) -> TxnRequest:
        if self.entry.shares:
            return self._share_if_free() if self.if_free else self._share()
        return self._alone_if_free() if self.if_free else self._alone()

    def read(self, answer: TxnResponse) -> Joined | Refused | Present:
        if self.entry.shares:
            return self._read_share_if_free(answer) if self.if_free else self._read_share(answer)
        return self._read_alone_if_free(answer) if self.if_free else self._read_alone(answer)

    # --- to hold alone. A free lock takes the shortest way, because that is what an acquire costs.

    def _alone(self) -> TxnRequest:
        found = nested(self._nothing(), [self._mark()], search(self.entry))
        return txn([self._is_new()], [found, self._put()], self._present())

    def _read_alone(self, answer: TxnResponse) -> Joined | Refused | Present:
        if not answer.succeeded:
            return _read_present(answer)
        fence, found = answer.header.revision, answer.responses[0].response_txn
        if found.succeeded:
            return Joined(Seen(fence), marked=True)
        return Joined(read_search(self.entry, fence, found.responses))

    def _alone_if_free(self) -> TxnRequest:
        keys, is_new = self.entry.keys, self._is_new()
        refused = nested([is_new], [newest(keys.queue, keys.end)], self._present())
        is_free = created_at(keys.queue, 0, keys.end)
        otherwise = nested([is_new, is_free], [self._put(), get(keys.marker)], [refused])
        return txn(self._nothing(), [self._put(), self._mark()], [otherwise])

    def _read_alone_if_free(self, answer: TxnResponse) -> Joined | Refused | Present:
        fence = answer.header.revision
        if answer.succeeded:
            return Joined(Seen(fence), marked=True)
        otherwise = answer.responses[0].response_txn
        if otherwise.succeeded:
            marker = Marker.read(otherwise.responses[1].response_range)
            return Joined(Seen(fence, marker=marker))
        refused = otherwise.responses[0].response_txn
        if refused.succeeded:
            return Refused(Seen(0, Blockers(tickets(refused.responses[0]))))
        return _read_present(refused)

    # --- to share

    def _share(self) -> TxnRequest:
        return txn([self._is_new()], [*search(self.entry), self._put()], self._present())

    def _read_share(self, answer: TxnResponse) -> Joined | Refused | Present:
        if not answer.succeeded:
            return _read_present(answer)
        return Joined(read_search(self.entry, answer.header.revision, answer.responses[:-1]))

    def _share_if_free(self) -> TxnRequest:
        """Join if nothing is in the way, or if no ticket has come since nothing was."""
        keys, share, is_new = self.entry.keys, self.entry.record.share, self._is_new()
        if self.free_at:
            is_free = [none_after(keys.queue, keys.end, self.free_at)]
        elif share.weight:
            is_free = [created_at(keys.queue, 0, keys.end)]
        else:
            is_free = [created_at(part.key, 0, part.end) for part in keys.others(share.group)]
        found = search(self.entry, all_peers=self.all_peers)
        return txn(
            [is_new, *is_free],
            [self._put(), get(keys.marker)],
            [nested([is_new], found, self._present())],
        )

    def _read_share_if_free(self, answer: TxnResponse) -> Joined | Refused | Present:
        if answer.succeeded:
            marker = Marker.read(answer.responses[1].response_range)
            return Joined(Seen(answer.header.revision, marker=marker))
        refused = answer.responses[0].response_txn
        if refused.succeeded:
            return Refused(read_search(self.entry, 0, refused.responses))
        return _read_present(refused)

    # --- parts

    def _is_new(self) -> Part:
        return created_at(self.entry.key, 0)

    def _nothing(self) -> list[Part]:
        """Neither a marker nor a ticket. If there is a marker, etcd need not go through the whole queue."""
        keys = self.entry.keys
        return [created_at(keys.marker, 0), created_at(keys.everything, 0, keys.everything_end)]

    def _put(self) -> Part:
        return put(self.entry.key, self.record.pack(), self.lease.id)

    def _mark(self) -> Part:
        return put(self.entry.keys.marker, marker_value("held"), self.markers.id)

    def _present(self) -> list[Part]:
        return renew_or_read(self.entry, self.view, self.record, self.lease)


def _read_present(answer: TxnResponse) -> Present:
    own = first(answer.responses[0].response_range)
    assert own is not None
    return Present(own.create_revision, answer.responses[1:])
