"""Whole bids on scripts that run on a server: three nodes, each with keys of its own."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fencelock.core.ticket import Departure
from fencelock.engines.redlock.protocol import Bid, Outcome, Tally
from tests.engines.redlock.calling import Caller, OpenCaller

ALL = (0, 1, 2)
TTL = 600_000


class Nodes:
    """Drives a bid as an engine would; nodes that are not in `reach` don't answer."""

    def __init__(self, callers: list[Caller]) -> None:
        self.callers = callers

    def bid(
        self,
        id: str,
        reach: Iterable[int] = ALL,
        hints: tuple[int, ...] = (0, 0, 0),
        known: int = 0,
    ) -> Bid:
        bid = Bid(3, known)
        orders = []
        for node, caller in enumerate(self.callers):
            if node in reach:
                orders += bid.answered(node, caller.grant("x", id, TTL, hints[node]))
            else:
                orders += bid.failed(node)
        while orders:
            order = orders.pop()
            answer = self.callers[order.node].raise_to("x", id, order.fence)
            orders += bid.answered(order.node, answer)
        return bid

    def win(self, id: str, reach: Iterable[int] = ALL) -> Bid:
        bid = self.bid(id, reach)
        assert bid.outcome is Outcome.WON
        return bid

    def renew(self, id: str, fence: int) -> bool | None:
        tally = Tally(3)
        for caller in self.callers:
            kept = caller.renew("x", id, TTL, fence)
            if kept is not None:
                tally.answered(kept)
        return tally.outcome

    def leave(
        self,
        id: str,
        fence: int = 0,
        departure: Departure = Departure.RELEASED,
        reach: Iterable[int] = ALL,
    ) -> None:
        for node in reach:
            self.callers[node].release("x", id, fence, departure)

    def expire(self) -> None:
        for caller in self.callers:
            caller.redis.delete(caller.keys("x")[0])


@pytest.fixture
def nodes(redis_url: str, open_caller: OpenCaller) -> Nodes:
    callers = [open_caller(redis_url) for _ in ALL]
    for caller in callers:
        caller.readmit()
    return Nodes(callers)


def test_one_after_the_other(nodes: Nodes) -> None:
    first = nodes.win("a")
    assert nodes.bid("b").outcome is Outcome.REFUSED
    assert nodes.bid("b").recheck == pytest.approx(600, abs=60)
    assert nodes.renew("a", first.fence)
    nodes.leave("a", first.fence)
    assert nodes.renew("a", first.fence) is False
    second = nodes.win("b")
    assert second.fence > first.fence
    assert not second.abandoned


def test_nodes_that_disagree_are_brought_together(nodes: Nodes) -> None:
    bid = nodes.bid("a", hints=(5, 9, 3))
    assert (bid.outcome, bid.fence) == (Outcome.WON, 9)
    assert [caller.grant("x", "a").fence for caller in nodes.callers] == [9, 9, 9]
    assert nodes.bid("a", known=9).fence == 9


def test_a_minority_gets_nothing(nodes: Nodes) -> None:
    assert nodes.bid("a", reach=(1,)).outcome is Outcome.UNREACHABLE


def test_the_next_one_learns_of_a_crash_from_any_majority(nodes: Nodes) -> None:
    nodes.win("a", reach=(0, 1))
    nodes.expire()
    assert nodes.win("b", reach=(1, 2)).abandoned


def test_a_node_that_missed_the_release_is_outvoted(nodes: Nodes) -> None:
    first = nodes.win("a")
    nodes.leave("a", first.fence, reach=(0, 1))
    nodes.expire()
    assert not nodes.win("b", reach=(1, 2)).abandoned


def test_a_holder_that_knows_that_it_lost_says_so(nodes: Nodes) -> None:
    nodes.leave("a", nodes.win("a").fence, Departure.LOST)
    assert nodes.win("b").abandoned


def test_a_withdrawn_bid_leaves_the_name_as_it_was(nodes: Nodes) -> None:
    nodes.win("a")
    nodes.expire()
    assert nodes.win("b").abandoned
    nodes.leave("b", departure=Departure.WITHDRAWN)
    after = nodes.win("c")
    assert after.abandoned
    nodes.leave("c", after.fence)
    nodes.win("d")
    nodes.leave("d", departure=Departure.WITHDRAWN)
    assert not nodes.win("e").abandoned


def test_a_late_request_that_took_the_lock_again_renews_nothing(nodes: Nodes) -> None:
    """Lost, held by another, and then a request from long ago arrives: not the lease it was."""
    first = nodes.win("a")
    nodes.expire()
    nodes.leave("b", nodes.win("b").fence)
    for caller in nodes.callers:
        assert caller.grant("x", "a").fence > first.fence
    assert nodes.renew("a", first.fence) is False
