"""Nodes and an unreliable network, for the simulation of the fenced Redlock.

Time is virtual, in milliseconds. Everything random comes from the seed. Messages are late, lost and
doubled, nodes lose their data, and in a *wild* world any ttl fires at any moment.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import ClassVar, TypeVar

from fencelock.engines.redlock.protocol import majority
from fencelock.engines.redlock.readmission_rule import floor_for
from fencelock.torture.redlock.node import Node

T = TypeVar("T")

NAME = "x"
START = 1_000_000
"""The first moment. Not 0: code that takes 0 for "never" must fail."""
HORIZON = 1_500
"""Faults and new bids happen in the first so many milliseconds."""
SKEW = 0.004
"""How wrong a clock's rate may be. Two such clocks stay below the drift that `validity` allows."""
MAX_TTL = 400
LIMIT = 100
"""The `DECISION_LIMIT` of this world, in milliseconds. Less than most ttls, so that both count."""


class World:
    """Nodes, messages and time. Planted bugs are subclasses."""

    node: ClassVar[type[Node]] = Node

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.wild = self.random.random() < 0.6
        self.clocks = self.random.choice(("absent", "right", "skewed"))
        """What the clients' hints are like."""
        self.now = float(START)
        self.counts: Counter[str] = Counter()
        self.trace: list[str] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._loss = self.random.choice((0.0, 0.02, 0.1, 0.25))
        self._latest = self.random.choice((5, 40, 400))
        self.nodes = [self.node() for _ in range(self.random.choice((3, 3, 5)))]
        self._rates = [1 + self.random.uniform(-SKEW, SKEW) for _ in self.nodes]
        self._snapshots = [node.copy() for node in self.nodes]
        for index, node in enumerate(self.nodes):
            node.readmit(node.look(self._clock(index)).since, 0, self._clock(index))
        for _ in range(self.random.choice((0, 0, 1, 2, 4))):
            self.at(self.now + self.random.uniform(0, HORIZON), self._forget)
            self.at(self.now + self.random.uniform(0, HORIZON), self._snapshot)
        for _ in range(self.random.choice((0, 0, 3, 10))):
            self.at(self.now + self.random.uniform(0, HORIZON), self._drop)
        self._cut_until = [0.0] * len(self.nodes)
        for _ in range(self.random.choice((0, 2, 8))):
            self.at(self.now + self.random.uniform(0, HORIZON), self._cut_off)
        if self.wild:
            for _ in range(self.random.choice((3, 10, 40))):
                self.at(self.now + self.random.uniform(0, HORIZON), self._fire)

    def at(self, moment: float, act: Callable[[], None]) -> None:
        """Do something at a moment of true time."""
        self._count += 1
        heapq.heappush(self._events, (moment, self._count, act))

    def log(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now - START:9.2f}  {what}")

    def run(self) -> None:
        """Run until nothing is left to happen."""
        while self._events:
            self.now, _, act = heapq.heappop(self._events)
            act()

    def send(
        self,
        index: int,
        what: str,
        act: Callable[[Node, int], T],
        reply: Callable[[T | None], None],
        timeout: float,
    ) -> None:
        """Send a request to a node. `reply` is called once, with the answer or with None after the timeout.

        Request and answer may be late or lost. The request may be doubled and arrive again much later.
        """
        heard = False

        def hear(answer: T | None) -> None:
            nonlocal heard
            if not heard:
                heard = True
                reply(answer)

        def arrive() -> None:
            answer = act(self.nodes[index], self._clock(index))
            self.log(f"node {index}: {what} -> {answer}")
            if self._delivered("replies lost"):
                self.at(self.now + self._delay(), lambda: hear(answer))

        if self._cut_until[index] < self.now and self._delivered("requests lost"):
            self.at(self.now + self._delay(), arrive)
        if self.random.random() < self._loss:
            self.counts["requests doubled"] += 1
            self.at(self.now + self.random.uniform(0, 3 * MAX_TTL), arrive)
        self.at(self.now + timeout, lambda: hear(None))

    def _delivered(self, fault: str) -> bool:
        lost = self.random.random() < self._loss
        self.counts[fault] += lost
        return not lost

    def _delay(self) -> float:
        return self.random.uniform(0.1, self._latest if self.random.random() < 0.3 else 3)

    def _clock(self, index: int) -> int:
        return int(START + (self.now - START) * self._rates[index])

    def _fire(self) -> None:
        index = self.random.randrange(len(self.nodes))
        trace = self.nodes[index].names.get(NAME)
        if trace is not None and trace.holder:
            self.log(f"node {index}: the ttl of {trace.holder} fires")
            self.counts["ttls fired early"] += 1
            self.nodes[index].expire(NAME)

    def _drop(self) -> None:
        """A node drops a trace that was not used for long. Here any time is long."""
        index = self.random.randrange(len(self.nodes))
        trace = self.nodes[index].names.get(NAME)
        if trace is not None and not trace.holder:
            self.nodes[index].drop(NAME)
            self.counts["traces dropped"] += 1
            self.log(f"node {index}: drops a name that was not used")

    def _cut_off(self) -> None:
        """No message reaches a node for a while, so that majorities differ."""
        index = self.random.randrange(len(self.nodes))
        self._cut_until[index] = self.now + self.random.uniform(0, MAX_TTL)
        self.counts["nodes cut off"] += 1

    def _snapshot(self) -> None:
        index = self.random.randrange(len(self.nodes))
        self._snapshots[index] = self.nodes[index].copy()

    def _forget(self) -> None:
        """A node restarts with old data or none. Never so many at once that no node knows what they knew."""
        index = self.random.randrange(len(self.nodes))
        blank = {other for other, node in enumerate(self.nodes) if not node.intact} | {index}
        if len(blank) >= majority(len(self.nodes)):
            return
        old = self.random.choice((self.node(), self._snapshots[index]))
        self.nodes[index].forget(old)
        self.counts["losses of data"] += 1
        self.log(f"node {index}: restarts and has lost what came after {old}")
        self.meet_blank(index)

    def meet_blank(self, index: int) -> None:
        """A client that meets a blank node looks at all nodes, again and again until it readmits the node."""
        if self.nodes[index].intact:
            return
        heard = {
            other: node.look(self._clock(other))
            for other, node in enumerate(self.nodes)
            if other == index or self.random.random() > self._loss
        }
        floor = floor_for(index, heard, len(self.nodes), hint=0, limit=LIMIT / 1000)
        if floor is None:
            self.at(self.now + self.random.uniform(10, MAX_TTL), lambda: self.meet_blank(index))
        else:
            self.readmit(index, heard[index].since, floor)

    def readmit(self, index: int, since: int, floor: int) -> None:
        """Let a node vote again."""
        if self.nodes[index].readmit(since, floor, self._clock(index)):
            self.counts["nodes readmitted"] += 1
            self.log(f"node {index}: votes again, above {floor}")
