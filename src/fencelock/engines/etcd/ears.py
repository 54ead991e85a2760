"""What waiting tickets listen for, and what they are told: without the stream over which it comes.

A watch tells of each event after the revision since which it listens. So whoever knows how things were
at that revision or later misses nothing, however late it begins to listen: it is told the last event if
that one is news to it. One that knows less has to look once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencelock.engines.etcd.admission import Ahead
from fencelock.engines.etcd.messages_pb2 import Event, KeyValue
from fencelock.engines.etcd.troubles import CallFailed
from fencelock.io.contract import Event as Flag

OnRenewed = Callable[[KeyValue], Ahead]


class Watcher:
    """What one waiting ticket listens for."""

    __slots__ = (
        "ahead",
        "broken",
        "deaf",
        "ears",
        "flag",
        "heard",
        "lacking",
        "late",
        "over",
        "renewed",
        "revision",
    )

    def __init__(self, ahead: Sequence[Ahead], lacking: int, revision: int, flag: Flag) -> None:
        self.ahead = {one.key: one for one in ahead}
        """As they were last heard of."""
        self.lacking = lacking
        """How much weight of those ahead has still to go; 0: nobody may."""
        self.revision = revision
        """What happened up to here is known."""
        self.heard = revision
        """The newest that it was told of."""
        self.flag = flag
        self.ears: list[Ear] = []
        self.deaf = 0
        """Ears that do not listen yet."""
        self.over = False
        """Enough of those ahead are gone, or the own ticket is, or it is not known any more: look again."""
        self.late = False
        """It began to listen later than what it knew of: look, though perhaps nothing has happened."""
        self.renewed = False
        """Whether somebody ahead was renewed since this was last asked."""
        self.broken: CallFailed | None = None

    def listens_to(self, ahead: Sequence[Ahead]) -> bool:
        mine = tuple(self.ahead.values())  # a copy, for it is told meanwhile who is gone
        return {one.fence for one in mine} == {one.fence for one in ahead}

    def look_again(self) -> None:
        self.over = True
        self.flag.set()


class Ear:
    """One watch on the key of a ticket, for all who listen for it here.

    It may stay when nobody does: a client uses its keys again, and those who contend for a lock mostly
    stand in the same order again and again.
    """

    __slots__ = ("id", "key", "last", "own", "since", "unwanted", "watchers")

    def __init__(self, id: int, key: bytes, own: bool) -> None:
        self.id = id
        self.key = key
        self.own = own
        """Whether it is the listeners' own ticket: of its renewals they know."""
        self.since = 0
        """It tells of all that happened after this revision; 0: it does not listen yet."""
        self.last: Event | None = None
        self.watchers: set[Watcher] = set()
        self.unwanted = 0
        """Events of which it told nobody, since the last one has gone."""

    def join(self, watcher: Watcher, on_renewed: OnRenewed) -> None:
        watcher.ears.append(self)
        self.watchers.add(watcher)
        if not self.since:
            watcher.deaf += 1
        else:
            self._begin(watcher)
            if self.last is not None:
                self._tell(watcher, self.last, on_renewed)

    def begin(self, revision: int) -> None:
        """It listens from now on, and tells of all that happens after this revision."""
        self.since = revision
        for watcher in self.watchers:
            watcher.deaf -= 1
            self._begin(watcher)

    def _begin(self, watcher: Watcher) -> None:
        if self.since > watcher.revision:
            watcher.late = True
        if watcher.late and not watcher.deaf:
            watcher.look_again()  # once, when all of its ears listen

    def end(self) -> None:
        """It listens no more until it begins anew."""
        if self.since:
            self.since, self.last = 0, None
            for watcher in self.watchers:
                watcher.deaf += 1

    def dismiss(self) -> None:
        """It will tell nothing more: whoever listens has to look."""
        for watcher in self.watchers:
            watcher.look_again()

    def hear(self, event: Event, on_renewed: OnRenewed) -> None:
        self.last = event
        if not self.watchers:
            self.unwanted += 1
        for watcher in list(self.watchers):
            self._tell(watcher, event, on_renewed)

    def _tell(self, watcher: Watcher, event: Event, on_renewed: OnRenewed) -> None:
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
            renewed = watcher.ahead[self.key] = on_renewed(event.kv)
            # That it goes on is no reason to wake up: it is enough to know it when the time would be up.
            watcher.renewed = True
            if not renewed.only_renewed(ahead):
                watcher.look_again()
