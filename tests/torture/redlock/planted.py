"""Broken variants of the fenced Redlock, planted from outside: the code itself has no switch for them."""

from __future__ import annotations

from fencelock.engines.redlock.protocol import Answer, Bid, Outcome, majority
from fencelock.torture.redlock.node import Node, Trace
from fencelock.torture.redlock.world import World


class OnePhase(Bid):
    """Takes the highest fence of a majority as its own, without a majority that knows it."""

    __slots__ = ()

    def _decide(self) -> None:
        super()._decide()
        granted = [fence for fence in self.seen if fence > 0]
        if self.outcome is None and len(granted) >= majority(self.nodes):
            self.fence, self.outcome = max(granted), Outcome.WON


class RaisesForAnyone(Node):
    """Writes the fence back and counts as a vote, even if another ticket has the lock there."""

    def raise_to(self, name: str, id: str, fence: int, now: int) -> Answer:
        if self._blank(now):
            return super().raise_to(name, id, fence, now)
        trace = self._trace(name, now)
        trace.fence = max(trace.fence, fence)
        self._cover(trace.fence, 0)
        return trace.granted()


class GrantsWithoutBump(Node):
    """Hands a free lock out under the fence that the last one had."""

    def grant(self, name: str, id: str, ttl: int, hint: int, now: int) -> Answer:
        trace = self._trace(name, now)
        if self.intact and not trace.holder and trace.fence > self.floor:
            trace.holder, trace.expires, trace.open = id, now + ttl, True
            return trace.granted()
        return super().grant(name, id, ttl, hint, now)


class ForgetsCrashes(Node):
    """Does not tell the next one that the one before it went without a word."""

    def _trace(self, name: str, now: int) -> Trace:
        trace = Node._trace(self, name, now)
        trace.open = trace.open and bool(trace.holder)
        return trace


class ForgetsNames(Node):
    """Starts again with a name that was not used for long, below the fences that it had."""

    def drop(self, name: str) -> None:
        del self.names[name]


class ForgetsItsFence(Bid):
    """A bid that does not know the fence its ticket has."""

    __slots__ = ()

    def __init__(self, nodes: int, fence: int = 0) -> None:
        Bid.__init__(self, nodes)


class VotesAtOnce(World):
    """A node that forgot everything votes as if it knew."""

    def meet_blank(self, index: int) -> None:
        self.readmit(index, self.nodes[index].look(self._clock(index)).since, 0)


class WaitsOnly(World):
    """A node that forgot everything waits until all leases are over, but does not learn the fences."""

    def readmit(self, index: int, since: int, floor: int) -> None:
        super().readmit(index, since, 0)


class LearnsOnly(World):
    """A node that forgot everything learns the fences, but does not wait until all leases are over."""

    def meet_blank(self, index: int) -> None:
        floor = max(node.ceiling for node in self.nodes)
        self.readmit(index, self.nodes[index].look(self._clock(index)).since, floor)
