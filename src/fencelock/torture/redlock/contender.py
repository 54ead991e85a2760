"""A client in the simulation of the fenced Redlock: it bids, holds, renews, releases or crashes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from fencelock.core.ticket import Departure
from fencelock.engines.redlock.protocol import Answer, Bid, Outcome, Raise, Tally, validity
from fencelock.torture.redlock.node import Node
from fencelock.torture.redlock.world import HORIZON, LIMIT, MAX_TTL, NAME, SKEW, START, World


@dataclass(slots=True)
class Win:
    """A bid that was won and announced. The checkers look at these."""

    id: str
    fence: int
    began_after: int
    """The highest fence that had been announced when the bid began."""
    predecessor: int
    """How many wins had been announced then."""
    abandoned: bool
    announced: float
    until: float
    """The true time at which the client stops to believe that it holds."""
    kept_fence: bool = True
    released: bool = False


class Contender:
    """One client. Planted bugs are subclasses."""

    bid: ClassVar[type[Bid]] = Bid

    def __init__(self, world: World, number: int, wins: list[Win]) -> None:
        self.world = world
        self.wins = wins
        self._rate = 1 + world.random.uniform(-SKEW, SKEW)
        self._offset = world.random.uniform(-2_000, 2_000) if world.clocks == "skewed" else 0.0
        self._name = f"c{number}"
        self._tickets = 0
        world.at(world.now + world.random.uniform(0, 200), self.begin)

    def begin(self) -> None:
        """Bid under a new ticket."""
        if self.world.now < START + HORIZON:
            self._tickets += 1
            Attempt(self, f"{self._name}.{self._tickets}", known=None)

    def again(self, soon: bool = False) -> None:
        """Begin again after a while."""
        pause = self.world.random.expovariate(1 / (80 if soon else 40))
        self.world.at(self.world.now + pause, self.begin)

    def hint(self) -> int:
        """The client's clock in µs, or 0 if it has none."""
        clock = int((START + (self.world.now - START) * self._rate + self._offset) * 1000)
        return 0 if self.world.clocks == "absent" else clock

    def validity(self, ttl: int, sent: float) -> float:
        """For how many seconds of its own clock the client may trust an answer that it gets now."""
        elapsed = (self.world.now - sent) * self._rate / 1000
        return validity(ttl / 1000, elapsed, LIMIT / 1000)

    def true_moment(self, since: float, seconds: float) -> float:
        """The true time at which so many seconds of the client's clock have passed."""
        return since + seconds * 1000 / self._rate


class Attempt:
    """One bid of a contender, and the lease that it may win."""

    def __init__(self, owner: Contender, id: str, known: Win | None) -> None:
        self.owner, self.id, self.known = owner, id, known
        self.world, self.random = owner.world, owner.world.random
        self.ttl = self.random.choice((50, 150, MAX_TTL))
        self.sent = self.world.now
        self.began_after = max((win.fence for win in owner.wins), default=0)
        self.predecessor = len(owner.wins)
        self.over = self.raised = False
        self.bid = owner.bid(len(self.world.nodes), known.fence if known else 0)
        self.hint = known.fence if known else owner.hint()
        self.world.counts["bids"] += 1
        self.world.log(f"{id} bids, hint {self.hint}")
        timeout = self.random.uniform(5, self.ttl)
        for index in range(len(self.world.nodes)):
            self._ask(index, "grant", self._grant, timeout)

    def _grant(self, node: Node, now: int) -> Answer:
        return node.grant(NAME, self.id, self.ttl, self.hint, now)

    def _ask(
        self, index: int, what: str, act: Callable[[Node, int], Answer], timeout: float
    ) -> None:
        def reply(answer: Answer | None) -> None:
            bid = self.bid
            self._go_on(bid.failed(index) if answer is None else bid.answered(index, answer))

        self.world.send(index, f"{what} {self.id}", act, reply, timeout)

    def _go_on(self, orders: list[Raise]) -> None:
        for order in orders:
            self.world.counts["raises"] += 1
            self.raised = True
            self._ask(order.node, f"raise to {order.fence}", self._raise(order.fence), self.ttl / 2)
        if self.bid.outcome is None or self.over:
            return
        self.over = True
        left = self.owner.validity(self.ttl, self.sent)
        if self.bid.outcome is Outcome.WON and left > 0:
            self._announce(left)
            return
        won = self.bid.outcome is Outcome.WON
        self.world.counts["bids too late" if won else f"bids {self.bid.outcome.value}"] += 1
        if self.known is None:
            self._release(Departure.WITHDRAWN)
            self.owner.again(soon=True)

    def _raise(self, fence: int) -> Callable[[Node, int], Answer]:
        return lambda node, now: node.raise_to(NAME, self.id, fence, now)

    def _announce(self, left: float) -> None:
        until = self.owner.true_moment(self.world.now, left)
        win = Win(
            self.id, self.bid.fence, self.began_after, self.predecessor, self.bid.abandoned,
            self.world.now, until,
        )  # fmt: skip
        if self.known is not None:
            self._compare(self.known, win)
            return
        self.owner.wins.append(win)
        self.world.counts["bids won"] += 1
        self.world.counts[f"bids won, clocks {self.world.clocks}"] += 1
        at_once = not self.raised
        self.world.counts[f"bids won at once, clocks {self.world.clocks}"] += at_once
        self.world.log(f"{self.id} WINS with fence {win.fence}, abandoned: {win.abandoned}")
        self._hold(win)

    def _compare(self, known: Win, found: Win) -> None:
        """The ticket has entered again. If it was given another fence, it has lost its lease."""
        if known.released:
            return  # a release is under way, and would take away what this ticket is given now
        if found.fence == known.fence:
            if self.world.now < known.until:
                known.until = max(known.until, found.until)
            return
        known.kept_fence = self.world.now >= known.until or self.world.wild
        self.owner.wins.append(found)
        found.until, found.released = self.world.now, True
        self._give_back(known)

    def _hold(self, win: Win) -> None:
        random, world = self.random, self.world
        for _ in range(random.choice((0, 0, 1, 3))):
            world.at(world.now + random.uniform(0, 2 * self.ttl), lambda: self._renew(win))
        if random.random() < 0.2:
            again = world.now + random.uniform(0, self.ttl)
            world.at(again, lambda: self._enter_again(win))
        if random.random() < 0.3:
            world.counts["crashes"] += 1  # nothing is released, and then it uses other tickets
            self.owner.again()
        else:
            world.at(world.now + random.uniform(0, 1.5 * self.ttl), lambda: self._give_back(win))

    def _enter_again(self, win: Win) -> None:
        if not win.released:
            self.world.counts["enters again"] += 1
            Attempt(self.owner, self.id, known=win)

    def _give_back(self, win: Win) -> None:
        if win.released:
            return
        held = self.world.now < win.until
        win.released = True
        win.until = min(win.until, self.world.now)
        self._release(Departure.RELEASED if held else Departure.LOST, win.fence)
        self.owner.again()

    def _renew(self, win: Win) -> None:
        if win.released or self.world.now >= win.until:
            return
        sent, tally = self.world.now, Tally(len(self.world.nodes))

        def reply(kept: bool | None) -> None:
            if kept is not None:
                tally.answered(kept)
            left = self.owner.validity(self.ttl, sent)
            if tally.outcome and self.world.now < win.until and not win.released and left > 0:
                self.world.counts["renewals"] += 1
                win.until = max(win.until, self.owner.true_moment(self.world.now, left))

        def renew(node: Node, now: int) -> bool | None:
            return node.renew(NAME, self.id, self.ttl, win.fence, now)

        for index in range(len(self.world.nodes)):
            self.world.send(index, f"renew {self.id}", renew, reply, self.ttl)

    def _release(self, departure: Departure, fence: int = 0) -> None:
        def release(node: Node, now: int) -> bool:
            return node.release(NAME, self.id, fence, departure, now)

        for index in range(len(self.world.nodes)):
            self.world.send(
                index, f"{departure.name.lower()} {self.id}", release, lambda _: None, 0
            )
