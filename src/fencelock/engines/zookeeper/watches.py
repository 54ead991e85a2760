"""Who of our tickets waits for whom, and since when those have not been renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kazoo.protocol.states import EventType

from fencelock.core.observed_expiry import time_left
from fencelock.core.ticket import Place, Standing
from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.admission import Finding
from fencelock.engines.zookeeper.batch import wake
from fencelock.engines.zookeeper.nodes import Slip, farewell
from fencelock.engines.zookeeper.own import Own
from fencelock.io.contract import IO


class Watches:
    """All nodes that are watched, and by whom.

    A watch is not taken back: there is one at most for each node, and it is used up by the next renewal.
    """

    def __init__(
        self,
        io: IO,
        root: str,
        tell: Callable[[Any], None],
        unchanged_since: Callable[[int, float], float],
    ) -> None:
        self._io = io
        self._root = root
        self._tell = tell
        self._unchanged_since = unchanged_since
        self._mutex = threading.Lock()
        self.watched: dict[str, set[Own]] = {}
        self._listening: dict[str, Own] = {}
        """By the farewell of the one ahead, who holds once it is said."""

    def expect(self, own: Own, finding: Finding) -> None:
        """Take in of whom a ticket has to hear from now on."""
        own.decisive, own.short = finding.decisive, finding.short
        own.turned_ahead = finding.turned
        if own.blockers == finding.ahead:
            return
        self._unlisten(own)
        kept = set(finding.ahead)
        self._drop(own, [node for node in own.blockers if node not in kept])
        own.blockers = finding.ahead
        own.alive = {node: until for node, until in own.alive.items() if node in kept}
        own.changed.intersection_update(kept)
        with self._mutex:
            for path in own.paths:
                self.watched.setdefault(path, set()).add(own)

    def watch(self, own: Own, nodes: tuple[str, ...]) -> list[Any]:
        """Ask for some of those that it waits for, and to be told when they are renewed or gone."""
        if nodes and own.event is None:
            own.event = self._io.event()
        own.changed.difference_update(nodes)
        wanted = [ask.get(f"{own.parent}/{node}", self._happened) for node in nodes]
        if nodes and own.farewell is None and not own.share.group:
            own.farewell = farewell(self._root, nodes[-1])
            self._listening[own.farewell] = own
            wanted.append(ask.listen(own.farewell))
        return wanted

    def heard(self, path: str) -> None:
        """The one ahead has released. Called in the connection's thread."""
        own = self._listening.pop(path, None)
        if own is not None:
            own.farewell, own.succeeds = None, True
            interrupt(own)

    def _unlisten(self, own: Own) -> None:
        path, own.farewell = own.farewell, None
        if path is not None and self._listening.get(path) is own:
            self._listening.pop(path, None)
            self._tell(ask.unlisten(path))

    def saw(self, own: Own, node: str, reply: Any) -> Slip:
        """Note that one of those that it waits for was there just now."""
        now = self._io.now()
        slip, left = self._left(reply, now)
        own.alive[node] = now + min(left, slip.ttl)
        return slip

    def is_dead(self, reply: Any) -> bool:
        """Whether a ticket that was read just now was not renewed for its ttl."""
        return self._left(reply, self._io.now())[1] <= 0

    def _left(self, reply: Any, now: float) -> tuple[Slip, float]:
        data, stat = reply
        slip = Slip.unpack(data)
        return slip, time_left(slip.ttl, self._unchanged_since(stat.mzxid, now), now)

    def expired(self, own: Own) -> list[str]:
        """Those ahead that were not renewed for their ttl."""
        now = self._io.now()
        return [node for node in own.blockers if own.alive.get(node, now + 1) <= now]

    def standing(self, own: Own) -> Standing:
        """How a ticket stands behind those that were seen."""
        left = min(own.alive.values()) - self._io.now()
        return Standing(Place.WAITING, own.fence, recheck=max(0.0, left))

    def wake_all(self) -> None:
        """The connection was lost, and all watches with it."""
        for own in list(self._listening.values()):
            own.farewell = None
        self._listening.clear()
        for owns in list(self.watched.values()):
            for own in list(owns):
                own.gone = True
                interrupt(own)

    def let_go(self, own: Own) -> None:
        """What becomes of those ahead is of no interest any more."""
        self._unlisten(own)
        self._drop(own, list(own.blockers))

    def _drop(self, own: Own, nodes: list[str]) -> None:
        for path in (f"{own.parent}/{node}" for node in nodes):
            with self._mutex:
                others = self.watched.get(path, set())
                others.discard(own)
                if not others:
                    self.watched.pop(path, None)

    def _happened(self, event: Any) -> None:
        """Called in the connection's thread."""
        if event.path is None:
            self.wake_all()
            return
        for own in list(self.watched.get(event.path, ())):
            if event.type == EventType.CHANGED:
                own.changed.add(event.path[len(own.parent) + 1 :])
            else:
                own.gone = True
            interrupt(own)


def interrupt(own: Own) -> None:
    """Wake whoever is parked with a ticket."""
    if (event := own.event) is not None:
        wake(event)
