"""The reference node: what the scripts of the Redlock engine do, in plain Python.

The simulation and the exploration run this class; tests/engines/redlock compares it with the scripts.
The caller gives the time, in milliseconds.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fencelock.core.ticket import Departure
from fencelock.engines.redlock.protocol import Answer, Vote
from fencelock.engines.redlock.readmission_rule import Memory

LAST_HINT = 2**52


@dataclass(slots=True)
class Trace:
    """One name at one node."""

    holder: str = ""
    expires: int = 0
    fence: int = 0
    open: bool = False
    dirty: int = 0
    clean: int = 0

    def granted(self) -> Answer:
        return Answer(Vote.GRANTED, self.fence, self.dirty, self.clean)


@dataclass(slots=True)
class Node:
    """One server: its names, and what it knows about itself."""

    leap: ClassVar[int] = 60_000_000
    """How far the ceiling leaps ahead when a fence passes it."""
    names: dict[str, Trace] = field(default_factory=dict)
    intact: bool = False
    since: int = -1
    """When it was found blank. -1 if nobody has looked yet."""
    floor: int = 0
    ceiling: int = 0
    longest: int = 0
    mark: int = -1
    """No fence of a name that was dropped as unused is above it. -1 until a name is asked for."""

    def grant(self, name: str, id: str, ttl: int, hint: int, now: int) -> Answer:
        """The first phase: take the lock here if it is free, under a fence above all earlier ones."""
        if self._blank(now):
            return Answer(Vote.BLANK)
        trace = self._trace(name, now)
        if self._mine(trace, id):
            trace.expires = max(trace.expires, now + ttl)
        elif trace.holder not in ("", id):
            left = (trace.expires - now) / 1000
            return Answer(Vote.REFUSED, recheck=left, ours=self._ours(trace, id))
        else:
            if trace.open:
                trace.dirty = trace.fence
            hint = hint if hint <= LAST_HINT else 0
            trace.fence = max(trace.fence + 1, self.floor + 1, hint)
            trace.holder, trace.expires, trace.open = id, now + ttl, True
        self._cover(trace.fence, ttl)
        return trace.granted()

    def raise_to(self, name: str, id: str, fence: int, now: int) -> Answer:
        """The second phase: raise the fence to the one that the bid has chosen."""
        if self._blank(now):
            return Answer(Vote.BLANK)
        trace = self._trace(name, now)
        if not self._mine(trace, id):
            left = trace.expires - now if trace.holder else 0
            return Answer(Vote.REFUSED, recheck=left / 1000)
        trace.fence = max(trace.fence, fence)
        self._cover(trace.fence, 0)
        return trace.granted()

    def renew(self, name: str, id: str, ttl: int, fence: int, now: int) -> bool | None:
        """Renew a holder. Never brings a ticket back. None if the node is blank."""
        if self._blank(now):
            return None
        trace = self._trace(name, now)
        if not self._mine(trace, id) or trace.fence != fence:
            return False
        trace.expires = max(trace.expires, now + ttl)
        self._cover(fence, ttl)
        return True

    def find(self, name: str, id: str, now: int) -> Answer:
        """Whether a bid of this ticket has the lock here. Changes nothing."""
        if self._blank(now):
            return Answer(Vote.BLANK)
        trace = self._trace(name, now)
        return trace.granted() if self._ours(trace, id) else Answer(Vote.REFUSED)

    def take_over(self, name: str, id: str, ttl: int, fence: int, now: int) -> bool | None:
        """Renew a ticket that has the lock under another bid, and make it the lock of this bid."""
        if self._blank(now):
            return None
        trace = self._trace(name, now)
        if not self._ours(trace, id) or trace.fence != fence:
            return False
        trace.holder, trace.expires = id, max(trace.expires, now + ttl)
        self._cover(fence, ttl)
        return True

    def release(self, name: str, id: str, fence: int, departure: Departure, now: int) -> bool:
        """Release the lock if this ticket has it here."""
        trace = self._trace(name, now)
        if trace.holder != id:
            return False
        if departure is Departure.RELEASED:
            trace.clean = max(trace.clean, fence)
        elif departure is Departure.LOST:
            trace.dirty = trace.fence
        trace.holder, trace.open = "", False
        return True

    def look(self, now: int) -> Memory:
        """What it knows about itself."""
        age = now - self.since if self._blank(now) else 0
        return Memory(self.intact, self.since, age / 1000, self.ceiling, self.longest / 1000)

    def readmit(self, since: int, floor: int, now: int) -> bool:
        """Let it vote again above a fence, if it is blank since the same loss of data."""
        if not self._blank(now) or self.since != since:
            return False
        self.intact = True
        self.floor = max(self.floor, floor)
        self.ceiling = max(self.ceiling, self.floor)
        return True

    # --- what can happen to a node

    def expire(self, name: str) -> None:
        """Let the ttl fire now, early or not."""
        self.names[name].holder = ""

    def drop(self, name: str) -> None:
        """Drop a name that was not used for a day. The mark was set after its last fence."""
        if not self.names[name].holder:
            self.mark = self.ceiling
            del self.names[name]

    def copy(self) -> Node:
        """A snapshot, as Redis writes it to disk from time to time."""
        return replace(self, names={name: copy(trace) for name, trace in self.names.items()})

    def forget(self, snapshot: Node) -> None:
        """Restart with the data of an earlier moment, or with none (those of a new node)."""
        old = snapshot.copy()
        self.names, self.floor, self.mark = old.names, old.floor, old.mark
        self.ceiling, self.longest = old.ceiling, old.longest
        self.intact, self.since = False, -1

    def _blank(self, now: int) -> bool:
        if not self.intact and self.since < 0:
            self.since = now
        return not self.intact

    def _trace(self, name: str, now: int) -> Trace:
        if name not in self.names:
            self.mark = self.ceiling if self.mark < 0 else self.mark
            self.names[name] = Trace(fence=self.mark)
        trace = self.names[name]
        if trace.holder and trace.expires <= now:
            trace.holder = ""
        return trace

    def _mine(self, trace: Trace, id: str) -> bool:
        return trace.holder == id and trace.fence > self.floor

    def _ours(self, trace: Trace, id: str) -> bool:
        same = trace.holder.partition(".")[0] == id.partition(".")[0]
        return bool(trace.holder) and same and trace.fence > self.floor

    def _cover(self, fence: int, ttl: int) -> None:
        if fence > self.ceiling:
            self.ceiling = fence + self.leap
        self.longest = max(self.longest, ttl)
