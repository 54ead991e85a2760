"""What a client makes of its nodes' answers: pure, so that any io can drive it and a simulator can prove it.

A *bid* is one attempt to hold a name. Its driver sends `grant` to all nodes at once, tells the bid
what came of each, and sends the raises that the bid asks for. The answers may come in any order;
the bid is decided as soon as the rest can't change it. docs/engines/redlock-protocol.md has the proof.

Three things are the driver's part, and the proof rests on them:

- A bid hears only answers to requests that were sent for it, not for an earlier bid of the same id.
- A ticket's id is never used for another ticket, and once it was released it does not bid again: a release
  that is late would take away what it was given since.
- A bid or a renewal counts only if `validity` is left when it is decided. Whatever else comes of a bid,
  `release` goes to *all* nodes afterwards, on the same connections: a node whose answer was lost may have
  granted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from fencelock.core.durations import deadline

LEAST_NODES = 3

PATIENCE = 3.0
"""No bid and no renewal counts that took longer, however long its ttl is: a node that has lost its memory
waits at least so long, and then none is under way that it voted for before."""


def majority(nodes: int) -> int:
    """How many nodes are more than half of them."""
    return nodes // 2 + 1


def validity(ttl: float, elapsed: float, patience: float = PATIENCE) -> float:
    """How long a lease can be trusted when `elapsed` seconds have passed since its request was sent."""
    return deadline(0.0, ttl) - elapsed if elapsed < deadline(0.0, patience) else 0.0


class Verdict(IntEnum):
    """What a node says to a bid. The scripts answer with these numbers."""

    REFUSED = 0
    """Somebody else has it there, or had it since."""
    GRANTED = 1
    BLANK = 2
    """The node may have forgotten something, so it does not vote; see `remembering`."""


class Answer(NamedTuple):
    """A node's answer to `grant` and to `raise`."""

    verdict: Verdict
    fence: int = 0
    """Where the name's fence stands at this node, if granted."""
    dirty: int = 0
    """The newest fence here whose holder went without a word."""
    clean: int = 0
    """The newest fence whose holder said that it is done."""
    recheck: float = 0.0
    """Seconds until whoever has it here would expire, if refused."""

    @classmethod
    def parse(cls, reply: Sequence[int]) -> Answer:
        """Read a script's reply."""
        verdict = Verdict(reply[0])
        if verdict is Verdict.GRANTED:
            return cls(verdict, *reply[1:4])
        return cls(verdict, recheck=reply[1] / 1000 if verdict is Verdict.REFUSED else 0.0)


class Outcome(Enum):
    """How a bid ended."""

    WON = "won"
    REFUSED = "refused"
    """Most nodes answered, and too many of them have it for somebody else."""
    UNREACHABLE = "unreachable"
    """Too few nodes answered, or remember enough to vote."""


class Raise(NamedTuple):
    """Something to send: raise the name's fence at this node to this one."""

    node: int
    fence: int


_UNHEARD, _REFUSED, _FAILED = 0, -1, -2


class Bid:
    """One attempt to hold a name on a majority of nodes, under one fence.

    `fence`: the one that this very ticket already has, if it looks again. It gets another one only if
    so many nodes say otherwise that it can't have that one any more.
    """

    __slots__ = (
        "asked", "clean", "dirty", "fence", "known", "nodes", "outcome", "rechecks", "seen",
    )  # fmt: skip

    def __init__(self, nodes: int, fence: int = 0) -> None:
        self.nodes = nodes
        self.known = fence
        self.fence = 0
        """What the bid settles on. It never goes down: a raise may be under way already."""
        self.outcome: Outcome | None = None
        self.seen = [_UNHEARD] * nodes
        self.asked = [True] * nodes
        self.dirty = self.clean = 0
        self.rechecks: list[float] = []

    @property
    def abandoned(self) -> bool:
        """Whether the holder before did not release: a fence that nobody has declared done."""
        return self.dirty > self.clean

    @property
    def recheck(self) -> float:
        """Of a refused bid: in how many seconds enough nodes are free again, if nobody renews."""
        missing = majority(self.nodes) - sum(fence > 0 for fence in self.seen)
        return sorted(self.rechecks)[missing - 1] if 0 < missing <= len(self.rechecks) else 0.0

    def answered(self, node: int, answer: Answer) -> list[Raise]:
        """Take note of an answer; returns what to send now."""
        self.asked[node] = False
        if answer.verdict is Verdict.GRANTED:
            self.seen[node] = answer.fence
            if self.outcome is None:  # what was announced stays
                self.dirty = max(self.dirty, answer.dirty)
                self.clean = max(self.clean, answer.clean)
        elif answer.verdict is Verdict.REFUSED:
            self.seen[node] = _REFUSED
            self.rechecks.append(answer.recheck)
        else:
            self.seen[node] = _FAILED
        return self._next()

    def failed(self, node: int) -> list[Raise]:
        """Take note that a node gave no answer, and will give none; returns what to send now."""
        self.asked[node] = False
        self.seen[node] = _FAILED
        return self._next()

    def _next(self) -> list[Raise]:
        if self.outcome is None:
            self._settle()
            self._decide()
        if self.fence == 0 or self.outcome not in (None, Outcome.WON):
            return []
        # Also once it is won: a latecomer that votes too is one node more that may fail.
        behind = [
            Raise(node, self.fence)
            for node, fence in enumerate(self.seen)
            if 0 < fence < self.fence and not self.asked[node]
        ]
        for order in behind:
            self.asked[order.node] = True
        return behind

    def _settle(self) -> None:
        """Choose a fence, or a higher one if a node is past the one that was chosen."""
        granted = [fence for fence in self.seen if fence > 0]
        enough = majority(self.nodes)
        if self.fence:
            self.fence = max(self.fence, *granted, 0)
        elif agreed := [fence for fence in granted if granted.count(fence) >= enough]:
            self.fence = agreed[0]
        elif len(granted) >= enough and not self._may_keep():
            self.fence = max(granted)

    def _may_keep(self) -> bool:
        otherwise = sum(seen not in (self.known, _UNHEARD, _FAILED) for seen in self.seen)
        return self.known > 0 and otherwise <= self.nodes - majority(self.nodes)

    def _decide(self) -> None:
        enough = majority(self.nodes)
        spare = self.nodes - enough
        if self.fence and self.seen.count(self.fence) >= enough:
            self.outcome = Outcome.WON
        elif self.seen.count(_FAILED) > spare:
            self.outcome = Outcome.UNREACHABLE
        elif self.seen.count(_REFUSED) + self.seen.count(_FAILED) > spare:
            # Lost, but "held by someone" and "too few nodes" must not look alike: hear most of them.
            if self.nodes - self.seen.count(_FAILED) - self.seen.count(_UNHEARD) >= enough:
                self.outcome = Outcome.REFUSED
        elif self.fence == 0 and _UNHEARD not in self.seen:
            # Only in doubt whether the ticket still has its fence: too few were heard to know.
            self.outcome = Outcome.UNREACHABLE


class Tally:
    """Counts a yes or no of every node: was it renewed, was it released?"""

    def __init__(self, nodes: int) -> None:
        self._enough = majority(nodes)
        self._spare = nodes - self._enough
        self._yes = self._no = 0

    def answered(self, yes: bool) -> None:
        """Take note of one node's answer."""
        if yes:
            self._yes += 1
        else:
            self._no += 1

    @property
    def missing(self) -> int:
        """How many more answers it takes to decide, if they all say the same."""
        return min(self._enough - self._yes, self._spare + 1 - self._no)

    @property
    def outcome(self) -> bool | None:
        """Whether a majority says yes; None while that is open, and for ever if those who gave no answer
        could make the difference: who holds it at just so many nodes has it, though one can't be reached."""
        if self._yes >= self._enough:
            return True
        return False if self._no > self._spare else None
