"""Every schedule of the fenced Redlock, for 3 nodes and 2 clients and bounded numbers of bids and faults.

    python -m fencelock.torture.redlock.explore                 # all bounds; some minutes
    python -m fencelock.torture.redlock.explore --bids 2 1      # only these

It runs the real `Bid` and the reference `Node`. In every state it tries all that can happen next: a client
begins a bid, or gives one up for the next; a request arrives, late or a second time, and the ttl of the
holder there has fired or not; an answer is read or never read; a node loses its data and is readmitted. A
release needs no step of its own: for fences it is like a ttl that fires. A lost message needs none either:
it never arrives. A refusal is like a lost answer. All nodes are alike, so states that differ only in their
numbering count as one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from fencelock.engines.redlock.protocol import Answer, Bid, Outcome, Vote
from fencelock.torture.redlock.node import Node, Trace

NODES = 3
NAME = "x"
NONE, GRANT = 0, -1

T = TypeVar("T")

# A state is made of plain tuples: millions of them have to be compared.


class Exchange(NamedTuple):
    """What is under way between one bid and one node, and what the bid knows of the node."""

    request: int = NONE
    """The request under way: a grant (-1), a raise to a fence, or nothing."""
    sent: int = NONE
    """The last request that has arrived. It and the grant may arrive again."""
    answer: int = NONE
    """The answer under way: the fence of a grant, or nothing."""
    seen: int = 0
    asked: bool = False


class Column(NamedTuple):
    """One node, and the exchanges between it and all bids."""

    holder: int
    fence: int
    intact: bool
    floor: int
    ceiling: int
    exchanges: tuple[Exchange, ...]

    def exchanged(self, bid: int, exchange: Exchange) -> Column:
        """The same node after an exchange with a bid."""
        return self._replace(exchanges=_with(self.exchanges, bid, exchange))


class BidState(NamedTuple):
    """What a bid knows, apart from its exchanges with nodes."""

    fence: int = 0
    over: bool = False
    began_after: int = 0


class State(NamedTuple):
    """Everything at one moment."""

    columns: tuple[Column, ...]
    bids: tuple[BidState, ...]
    current: tuple[int, ...]
    """How many bids each client has begun."""
    announced: tuple[int, ...]
    again: int
    """How many requests may still arrive a second time."""
    losses: int
    """How many losses of a node's data may still happen."""
    before: tuple[int, ...] = ()
    """The bids that were under way at the last loss of data."""

    def with_column(self, index: int, column: Column) -> State:
        """The state with one node changed."""
        return self._replace(columns=_with(self.columns, index, column))

    def renumbered(self) -> State:
        """The state that stands for all states that differ only in the numbering of the nodes."""
        return self._replace(columns=tuple(sorted(self.columns)))


def _with(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


class _ExactNode(Node):
    """A node whose ceiling does not leap ahead: a gap could hide a violation."""

    leap = 0


@dataclass(frozen=True)
class Found:
    """The result of an exploration."""

    states: int
    complete: bool
    violation: str = ""
    trail: tuple[str, ...] = ()

    def __str__(self) -> str:
        scope = "all" if self.complete else "the first"
        if not self.violation:
            return f"{scope} {self.states:,} states, no violation"
        steps = [f"  {number:>2}. {step}" for number, step in enumerate(self.trail, 1)]
        return "\n".join([f"violation after {self.states:,} states: {self.violation}", *steps])


class Explorer:
    """Walks through all states, nearest first. Broken variants are subclasses."""

    node: type[Node] = _ExactNode
    bid: type[Bid] = Bid
    waits = True
    """Whether a node that lost its data does not vote before all bids from then are over."""
    learns = True
    """Whether it then votes only above the fences that the other nodes know."""

    def __init__(
        self, bids: tuple[int, int], again: int = 0, losses: int = 0, hints: tuple[int, ...] = (0,)
    ) -> None:
        self.owned = bids
        self.hints = hints
        exchanges = (Exchange(),) * sum(bids)
        column = Column(-1, 0, True, 0, 0, exchanges)
        self.start = State((column,) * NODES, (BidState(),) * sum(bids), (0, 0), (), again, losses)

    def run(self, limit: int = 50_000_000) -> Found:
        """Explore all states, nearest first, so that it finds a shortest way to a violation."""
        # Only the 64-bit hash of a state is kept: the state itself takes a kilobyte.
        parents = {hash(self.start): 0}
        level = [self.start]
        while level:
            following: list[State] = []
            for state in level:
                here = hash(state)
                for _, after, violation in self.steps(state):
                    if violation:
                        return Found(len(parents), False, violation, self._trail(parents, here))
                    after = after.renumbered()
                    key = hash(after)
                    if key not in parents:
                        parents[key] = here
                        following.append(after)
                if len(parents) > limit:
                    return Found(len(parents), False)
            level = following
        return Found(len(parents), True)

    def _trail(self, parents: dict[int, int], key: int) -> tuple[str, ...]:
        """The steps to this state and to the violation after it, with the original numbers of nodes."""
        keys = [key]
        while parents[keys[-1]]:
            keys.append(parents[keys[-1]])
        state, trail = self.start, []
        for key in keys[-2::-1]:
            label, state = next(
                (label, after)
                for label, after, _ in self.steps(state)
                if hash(after.renumbered()) == key
            )
            trail.append(label)
        return (*trail, next(label for label, _, violation in self.steps(state) if violation))

    def steps(self, state: State) -> Iterator[tuple[str, State, str]]:
        """All that can happen next: a label, the state after it, and the violation, if any."""
        for client in range(2):
            yield from self._begin(state, client)
        for index, column in enumerate(state.columns):
            if index and column == state.columns[index - 1]:
                continue  # the same step on an equal node
            for bid in range(len(state.bids)):
                exchange = column.exchanges[bid]
                if exchange.request:
                    yield from self._arrive(state, index, bid, exchange.request, late=False)
                if exchange.sent and state.again:
                    for request in {GRANT, exchange.sent}:
                        yield from self._arrive(state, index, bid, request, late=True)
                if exchange.answer:
                    yield self._read(state, index, bid)
            yield from self._lose_or_readmit(state, index)

    def _begin(self, state: State, client: int) -> Iterator[tuple[str, State, str]]:
        begun = state.current[client]
        if begun == self.owned[client]:
            return
        bid = begun + (self.owned[0] if client else 0)
        bids = _with(state.bids, bid, BidState(began_after=max(state.announced, default=0)))
        columns = [column.exchanged(bid, Exchange(GRANT, asked=True)) for column in state.columns]
        if begun:  # nobody reads answers to the previous bid; its requests may still arrive
            bids = _with(bids, bid - 1, BidState(over=True))
            columns = [
                column.exchanged(bid - 1, Exchange(*column.exchanges[bid - 1][:2]))
                for column in columns
            ]
        current = _with(state.current, client, begun + 1)
        after = state._replace(columns=tuple(columns), bids=bids, current=current)
        yield f"client {client} begins {self._label(bid)}", after, ""

    def _arrive(
        self, state: State, index: int, bid: int, request: int, *, late: bool
    ) -> Iterator[tuple[str, State, str]]:
        column = state.columns[index]
        exchange = column.exchanges[bid]
        what = "grant" if request == GRANT else f"raise to {request}"
        label = f"node {index}: {'again ' if late else ''}{what} of {self._label(bid)}"
        if not column.intact:
            return  # no answer of a blank node counts
        hints = self.hints if request == GRANT and column.holder != bid else (0,)
        for fires in (False, True) if column.holder >= 0 else (False,):
            for hint in hints:
                node = self._node(column)
                if fires:
                    node.expire(NAME)
                if request == GRANT:
                    answer = node.grant(NAME, str(bid), 1, hint, 0)
                else:
                    answer = node.raise_to(NAME, str(bid), request, 0)
                if late:
                    after_exchange = exchange
                else:
                    heard = answer.fence if self._listens(state, bid, answer.fence) else NONE
                    sent = request if state.again else NONE
                    after_exchange = exchange._replace(request=NONE, sent=sent, answer=heard)
                after = state.with_column(index, self._column(node, column, bid, after_exchange))
                if late and state.again == 1:  # nothing may arrive a second time any more
                    unsent = [
                        column._replace(
                            exchanges=tuple(x._replace(sent=NONE) for x in column.exchanges)
                        )
                        for column in after.columns
                    ]
                    after = after._replace(columns=tuple(unsent))
                fired = f" (the ttl of {self._label(column.holder)} fired)" if fires else ""
                told = f"{answer.vote.name.lower()} {answer.fence or ''}".strip()
                yield f"{label}{fired}: {told}", after._replace(again=state.again - late), ""

    def _read(self, state: State, index: int, number: int) -> tuple[str, State, str]:
        known = state.bids[number]
        exchanges = [column.exchanges[number] for column in state.columns]
        bid = self.bid(NODES)
        bid.fence, bid.outcome = known.fence, Outcome.WON if known.over else None
        bid.seen = [exchange.seen for exchange in exchanges]
        bid.asked = [exchange.asked for exchange in exchanges]
        orders = bid.answered(index, Answer(Vote.GRANTED, exchanges[index].answer))
        over = bid.outcome is Outcome.WON
        columns = list(state.columns)
        for node, exchange in enumerate(exchanges):
            request = dict(orders).get(node, exchange.request)
            answer = NONE if node == index else exchange.answer
            if over:  # only raises of nodes that are behind are left to do
                answer = answer if answer < bid.fence else NONE
                exchange = Exchange(request, exchange.sent, answer)
            else:
                exchange = Exchange(request, exchange.sent, answer, bid.seen[node], bid.asked[node])
            columns[node] = columns[node].exchanged(number, exchange)
        called, violation, announced = self._label(number), "", state.announced
        label = f"{called} hears node {index}"
        if over and not known.over:
            label += f" and wins with fence {bid.fence}"
            if bid.fence in announced:
                violation = f"{called} was given {bid.fence}, which was given before"
            elif bid.fence <= known.began_after:
                violation = f"{called} was given {bid.fence} after {known.began_after}"
            announced = tuple(sorted((*announced, bid.fence)))
        told = BidState(bid.fence, over, 0 if over else known.began_after)
        bids = _with(state.bids, number, told)
        after = state._replace(columns=tuple(columns), bids=bids, announced=announced)
        return label, after, violation

    def _lose_or_readmit(self, state: State, index: int) -> Iterator[tuple[str, State, str]]:
        column = state.columns[index]
        others = [other for place, other in enumerate(state.columns) if place != index]
        if column.intact and state.losses and all(other.intact for other in others):
            after = state.with_column(index, Column(-1, 0, False, 0, 0, column.exchanges))
            before = self._under_way(state, range(len(state.bids)))
            after = after._replace(losses=state.losses - 1, before=before)
            yield f"node {index}: loses its data", after, ""
        if not column.intact and not (self.waits and self._under_way(state, state.before)):
            floor = max(other.ceiling for other in others) if self.learns else 0
            readmitted = column._replace(intact=True, floor=floor, ceiling=floor)
            after = state.with_column(index, readmitted)._replace(before=())
            yield f"node {index}: votes again, above {floor}", after, ""

    def _under_way(self, state: State, bids: Iterable[int]) -> tuple[int, ...]:
        """The bids among these that their clients have neither won nor given up."""
        return tuple(bid for bid in bids if self._current(state, bid) and not state.bids[bid].over)

    def _listens(self, state: State, bid: int, fence: int) -> bool:
        over = state.bids[bid].over
        return self._current(state, bid) and (not over or fence < state.bids[bid].fence)

    def _current(self, state: State, bid: int) -> bool:
        first = self.owned[0]
        return bid == state.current[0] - 1 if bid < first else bid - first == state.current[1] - 1

    def _label(self, bid: int) -> str:
        first = self.owned[0]
        return f"A{bid + 1}" if bid < first else f"B{bid - first + 1}"

    def _node(self, column: Column) -> Node:
        holder = str(column.holder) if column.holder >= 0 else ""
        trace = Trace(holder, 1, column.fence)
        return self.node({NAME: trace}, True, 0, column.floor, column.ceiling)

    def _column(self, node: Node, column: Column, bid: int, exchange: Exchange) -> Column:
        trace = node.names[NAME]
        holder = int(trace.holder) if trace.holder else -1
        after = Column(holder, trace.fence, True, node.floor, node.ceiling, column.exchanges)
        return after.exchanged(bid, exchange)


BOUNDS: tuple[tuple[tuple[int, int], int, int, tuple[int, ...]], ...] = (
    ((1, 1), 0, 0, (0, 3)),
    ((1, 1), 2, 0, (0,)),
    ((1, 1), 1, 1, (0,)),
    ((1, 1), 0, 2, (0,)),
    ((2, 1), 0, 0, (0,)),
)
"""Bids of each client, requests that arrive twice, losses of data, hints."""


def main(arguments: list[str] | None = None) -> int:
    """The command line: explore within the given bounds, or within all of `BOUNDS`."""
    parser = argparse.ArgumentParser(
        prog="python -m fencelock.torture.redlock.explore",
        description="Try every schedule of the fenced Redlock with 3 nodes and 2 clients.",
    )
    parser.add_argument("--bids", type=int, nargs=2, help="how many bids each client makes")
    parser.add_argument("--again", type=int, default=0, help="requests that arrive a second time")
    parser.add_argument("--losses", type=int, default=0, help="how often a node loses its data")
    parser.add_argument("--hints", type=int, nargs="+", default=[0], help="the clients' hints")
    options = parser.parse_args(arguments)
    bounds = BOUNDS
    if options.bids:
        bids = (options.bids[0], options.bids[1])
        bounds = ((bids, options.again, options.losses, tuple(options.hints)),)
    bad = 0
    for bids, again, losses, hints in bounds:
        started = time.perf_counter()
        found = Explorer(bids, again, losses, hints).run()
        bad += bool(found.violation)
        print(
            f"bids {bids[0]}+{bids[1]}, {again} doubled, {losses} losses of data, hints {hints}: "
            f"{found} ({time.perf_counter() - started:.0f} s)",
            flush=True,
        )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
