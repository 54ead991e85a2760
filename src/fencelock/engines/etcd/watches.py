"""What waiting tickets are told by their watches. `listener.py` has the stream over which it comes.

A watch reports each event after the revision at which it began. So a ticket that knows how things were at
that revision or later misses nothing, however late it joins the watch: it is told the last event, if that is
news to it. A ticket that knows less has to look once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock.engines.etcd.admission import Ahead, Blockers
from fencelock.engines.etcd.errors import CallFailed
from fencelock.engines.etcd.messages_pb2 import Event, KeyValue
from fencelock.io.contract import Event as Flag


class Watcher:
    """One waiting ticket: what it knows, and what its watches have told it."""

    def __init__(
        self,
        blockers: Blockers,
        revision: int,
        flag: Flag,
        saw_renewal: Callable[[KeyValue], Ahead],
    ) -> None:
        self.ahead = {one.key: one for one in blockers.ahead}
        """The tickets ahead that it waits for, as they were last seen."""
        self.lacking = blockers.lacking
        """How much weight of the tickets ahead must still go. 0: any of them."""
        self.revision = revision
        """It knows all that happened up to this revision."""
        self.heard = revision
        """The newest revision that it was told of."""
        self.flag = flag
        """Set to wake the waiter."""
        self.saw_renewal = saw_renewal
        self.watches: list[Watch] = []
        self.not_begun = 0
        """How many of its watches have not begun yet."""
        self.must_look = False
        """Enough tickets ahead are gone, or its own is, or that is not known any more."""
        self.late = False
        """A watch began later than what the ticket knew. It must look, though perhaps nothing happened."""
        self.renewed = False
        """Whether a ticket ahead was renewed since this was last reset."""
        self.broken: CallFailed | None = None

    def waits_for(self, ahead: Sequence[Ahead]) -> bool:
        mine = tuple(self.ahead.values())  # a copy: another thread takes out what is gone
        return {one.fence for one in mine} == {one.fence for one in ahead}

    def look_again(self) -> None:
        self.must_look = True
        self.flag.set()


class Watch:
    """One etcd watch on the key of a ticket, for all waiting tickets of this client that need it.

    It may stay when none does: clients use their keys again, and the tickets that contend for a lock mostly
    stand in the same order again and again.
    """

    def __init__(self, id: int, key: bytes, own: bool) -> None:
        self.id = id
        self.key = key
        self.own = own
        """Whether the key is the watchers' own ticket. They need not be told of its renewals."""
        self.since = 0
        """It reports all that happened after this revision. 0: it has not begun."""
        self.last: Event | None = None
        self.watchers: set[Watcher] = set()
        self.unneeded = 0
        """Events that it reported since it had its last watcher."""

    def join(self, watcher: Watcher) -> None:
        watcher.watches.append(self)
        self.watchers.add(watcher)
        if not self.since:
            watcher.not_begun += 1
        else:
            self._begin(watcher)
            if self.last is not None:
                self._tell(watcher, self.last)

    def begin(self, revision: int) -> None:
        """It reports all that happens after this revision."""
        self.since = revision
        for watcher in self.watchers:
            watcher.not_begun -= 1
            self._begin(watcher)

    def _begin(self, watcher: Watcher) -> None:
        if self.since > watcher.revision:
            watcher.late = True
        if watcher.late and not watcher.not_begun:
            watcher.look_again()  # once, when all of its watches have begun

    def end(self) -> None:
        """The stream has ended. It reports nothing until it begins anew."""
        if self.since:
            self.since, self.last = 0, None
            for watcher in self.watchers:
                watcher.not_begun += 1

    def report(self, event: Event) -> None:
        self.last = event
        if not self.watchers:
            self.unneeded += 1
        for watcher in list(self.watchers):
            self._tell(watcher, event)

    def _tell(self, watcher: Watcher, event: Event) -> None:
        revision = event.kv.mod_revision
        if revision <= watcher.revision:
            return
        watcher.heard = max(watcher.heard, revision)
        ahead = watcher.ahead.get(self.key) if not self.own else None
        if ahead is None:
            watcher.look_again()
        elif event.type == Event.DELETE or event.kv.create_revision != ahead.fence:
            if watcher.lacking > ahead.share.weight:
                watcher.lacking -= ahead.share.weight
                del watcher.ahead[self.key]
                self.watchers.discard(watcher)
            else:
                watcher.look_again()
        else:
            renewed = watcher.ahead[self.key] = watcher.saw_renewal(event.kv)
            # A renewal is no reason to wake up. The waiter needs to know it when the old ttl would end.
            watcher.renewed = True
            if not renewed.only_renewed(ahead):
                watcher.look_again()
