"""How a client decides from its nodes' answers. Pure: any io can drive it, and a simulator can check it.

A *bid* is one attempt to hold a name. The caller sends `grant` to all nodes at once, reports each answer to
the bid, and sends the raises that the bid asks for. Answers may come in any order. The bid is decided as
soon as the missing answers can't change it. docs/engines/redlock-protocol.md has the proof.

The caller must keep three rules. The proof rests on them:

- Report only answers to requests that were sent for this bid, not for an earlier bid of the same id.
- Use an id for one ticket only, and never bid again with an id that was released: a late release would take
  away what the new bid was given.
- Count a bid or a renewal only if `validity` is left when it is decided. After a bid that does not count,
  send `release` to *all* nodes, on the same connections: a node whose answer was lost may have granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from fencelock.core.durations import deadline

LEAST_NODES = 3

DECISION_LIMIT = 3.0
"""Seconds after which no bid and no renewal counts any more, however long its ttl is. A node that lost its
data waits at least this long. After that, nothing that it voted for before can still be decided."""


def majority(nodes: int) -> int:
    """The smallest number that is more than half of the nodes."""
    return nodes // 2 + 1


def validity(ttl: float, elapsed: float, limit: float = DECISION_LIMIT) -> float:
    """How long a lease can be trusted when `elapsed` seconds have passed since its request was sent."""
    return deadline(0.0, ttl) - elapsed if elapsed < deadline(0.0, limit) else 0.0


class Vote(IntEnum):
    """A node's answer to a bid. The scripts reply with these numbers."""

    REFUSED = 0
    """Another ticket has the lock there, or has had it since."""
    GRANTED = 1
    BLANK = 2
    """The node may have lost data, so it does not vote; see `readmission_rule`."""


class Answer(NamedTuple):
    """A node's answer to `grant` and to `raise`."""

    vote: Vote
    fence: int = 0
    """If granted: the name's fence at this node."""
    dirty: int = 0
    """The newest fence here whose holder ended without a release."""
    clean: int = 0
    """The newest fence here whose holder released."""
    recheck: float = 0.0
    """If refused: seconds until the lock expires here."""
    ours: bool = False
    """If refused: whether another bid of the same ticket has the lock here."""

    @classmethod
    def parse(cls, reply: Sequence[int]) -> Answer:
        """Read a script's reply."""
        vote = Vote(reply[0])
        if vote is Vote.GRANTED:
            _, fence, dirty, clean = reply
            return cls(vote, fence, dirty, clean)
        if vote is Vote.REFUSED:
            return cls(vote, recheck=reply[1] / 1000, ours=reply[2:] == [1])
        return cls(vote)


class Outcome(Enum):
    """How a bid ended."""

    WON = "won"
    REFUSED = "refused"
    """Most nodes answered, and too many of them have the lock for another ticket."""
    UNREACHABLE = "unreachable"
    """Too few nodes answered, or too many are blank."""


class Raise(NamedTuple):
    """A request to send: raise the name's fence at this node to this one."""

    node: int
    fence: int


_UNHEARD, _REFUSED, _FAILED = 0, -1, -2


class Bid:
    """One attempt to hold a name on a majority of nodes, under one fence.

    `fence`: the fence that this ticket already has, if it holds and enters again. The bid chooses another
    fence only if so many nodes contradict that the ticket can't have this one any more.
    """

    __slots__ = (
        "asked", "clean", "dirty", "fence", "known", "nodes", "outcome", "rechecks", "seen",
    )  # fmt: skip

    def __init__(self, nodes: int, fence: int = 0) -> None:
        self.nodes = nodes
        self.known = fence
        self.fence = 0
        """The chosen fence. It never goes down: a raise may be under way already."""
        self.outcome: Outcome | None = None
        self.seen = [_UNHEARD] * nodes
        self.asked = [True] * nodes
        self.dirty = self.clean = 0
        self.rechecks: list[float] = []

    @property
    def abandoned(self) -> bool:
        """Whether the previous holder did not release: no node knows its fence as released."""
        return self.dirty > self.clean

    @property
    def recheck(self) -> float:
        """Of a refused bid: seconds until enough nodes are free again, if nobody renews."""
        missing = majority(self.nodes) - sum(fence > 0 for fence in self.seen)
        return sorted(self.rechecks)[missing - 1] if 0 < missing <= len(self.rechecks) else 0.0

    def answered(self, node: int, answer: Answer) -> list[Raise]:
        """Take in an answer. Returns what to send now."""
        self.asked[node] = False
        if answer.vote is Vote.GRANTED:
            self.seen[node] = answer.fence
            if self.outcome is None:  # once announced, `abandoned` must not change
                self.dirty = max(self.dirty, answer.dirty)
                self.clean = max(self.clean, answer.clean)
        elif answer.vote is Vote.REFUSED:
            self.seen[node] = _REFUSED
            self.rechecks.append(answer.recheck)
        else:
            self.seen[node] = _FAILED
        return self._next()

    def failed(self, node: int) -> list[Raise]:
        """Take in that a node will give no answer. Returns what to send now."""
        self.asked[node] = False
        self.seen[node] = _FAILED
        return self._next()

    def _next(self) -> list[Raise]:
        if self.outcome is None:
            self._choose_fence()
            self._decide()
        if self.fence == 0 or self.outcome not in (None, Outcome.WON):
            return []
        # Also after the bid is won: with one more vote, one more node may fail.
        behind = [
            Raise(node, self.fence)
            for node, fence in enumerate(self.seen)
            if 0 < fence < self.fence and not self.asked[node]
        ]
        for order in behind:
            self.asked[order.node] = True
        return behind

    def _choose_fence(self) -> None:
        """Choose a fence, or a higher one if a node is already above the chosen one."""
        granted = [fence for fence in self.seen if fence > 0]
        enough = majority(self.nodes)
        if self.fence:
            self.fence = max(self.fence, *granted, 0)
        elif agreed := [fence for fence in granted if granted.count(fence) >= enough]:
            self.fence = agreed[0]
        elif len(granted) >= enough and not self._may_keep():
            self.fence = max(granted)

    def _may_keep(self) -> bool:
        """Whether the ticket may still have the fence that it knows."""
        contradict = sum(seen not in (self.known, _UNHEARD, _FAILED) for seen in self.seen)
        return self.known > 0 and contradict <= self.nodes - majority(self.nodes)

    def _decide(self) -> None:
        enough = majority(self.nodes)
        spare = self.nodes - enough
        if self.fence and self.seen.count(self.fence) >= enough:
            self.outcome = Outcome.WON
        elif self.seen.count(_FAILED) > spare:
            self.outcome = Outcome.UNREACHABLE
        elif self.seen.count(_REFUSED) + self.seen.count(_FAILED) > spare:
            # The bid is lost. "Held by someone else" and "too few nodes" must not look alike, so wait until
            # a majority has answered.
            if self.nodes - self.seen.count(_FAILED) - self.seen.count(_UNHEARD) >= enough:
                self.outcome = Outcome.REFUSED
        elif self.fence == 0 and _UNHEARD not in self.seen:
            # Too few nodes answered to know whether the ticket still has its fence.
            self.outcome = Outcome.UNREACHABLE


class Tally:
    """Counts a yes or no from every node: was the ticket renewed, was it released?"""

    def __init__(self, nodes: int) -> None:
        self._enough = majority(nodes)
        self._spare = nodes - self._enough
        self._yes = self._no = 0

    def answered(self, yes: bool) -> None:
        """Count one node's answer."""
        if yes:
            self._yes += 1
        else:
            self._no += 1

    @property
    def missing(self) -> int:
        """How many more answers decide it, if they are all the same."""
        return min(self._enough - self._yes, self._spare + 1 - self._no)

    @property
    def outcome(self) -> bool | None:
        """Whether a majority says yes. None while that is open.

        It stays None if the nodes that gave no answer could make the difference: a ticket that holds at
        exactly a majority is not lost because one of these nodes can't be reached.
        """
        if self._yes >= self._enough:
            return True
        return False if self._no > self._spare else None
