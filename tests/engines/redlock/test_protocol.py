"""What a bid makes of its nodes' answers, in any order."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.engines.redlock.protocol import (
    DECISION_LIMIT,
    Answer,
    Bid,
    Outcome,
    Raise,
    Tally,
    Vote,
    majority,
    validity,
)
from fencelock.engines.redlock.readmission_rule import Memory, floor_for
from fencelock.torture.redlock.node import Node


def granted(fence: int, dirty: int = 0, clean: int = 0) -> Answer:
    return Answer(Vote.GRANTED, fence, dirty, clean)


def refused(recheck: float = 0.0) -> Answer:
    return Answer(Vote.REFUSED, recheck=recheck)


BLANK = Answer(Vote.BLANK)


def end(bid: Bid) -> tuple[Outcome | None, int]:
    return bid.outcome, bid.fence


def test_a_majority_that_agrees_decides_in_one_round_trip() -> None:
    bid = Bid(3)
    assert bid.answered(2, granted(7)) == []
    assert end(bid)[0] is None
    assert bid.answered(0, granted(7)) == []
    assert end(bid) == (Outcome.WON, 7)


def test_nodes_that_are_behind_are_raised_to_the_highest() -> None:
    bid = Bid(3)
    bid.answered(0, granted(5))
    assert bid.answered(1, granted(9)) == [Raise(0, 9)]
    assert end(bid)[0] is None
    assert bid.answered(0, granted(9)) == []
    assert end(bid) == (Outcome.WON, 9)


def test_a_node_that_is_past_the_fence_lifts_it_for_all() -> None:
    bid = Bid(5)
    for node, fence in enumerate((5, 6)):
        assert bid.answered(node, granted(fence)) == []
    assert bid.answered(2, granted(7)) == [Raise(0, 7), Raise(1, 7)]
    assert bid.answered(0, granted(8)) == [Raise(2, 8)]
    assert bid.answered(1, granted(7)) == [Raise(1, 8)]
    bid.answered(1, granted(8))
    bid.answered(2, granted(8))
    assert end(bid) == (Outcome.WON, 8)


def test_a_fence_that_was_given_up_for_a_higher_one_is_not_taken_up_again() -> None:
    """The raise is under way: a bid that chose 5 now would soon have a node less that knows it."""
    bid = Bid(3)
    bid.answered(0, granted(5))
    assert bid.answered(1, granted(9)) == [Raise(0, 9)]
    assert bid.answered(2, granted(5)) == [Raise(2, 9)]
    assert end(bid)[0] is None


def test_a_latecomer_is_raised_too_but_not_followed() -> None:
    bid = Bid(5)
    for node in range(3):
        bid.answered(node, granted(7))
    assert bid.answered(3, granted(6)) == [Raise(3, 7)]
    assert bid.answered(4, granted(9)) == []
    assert end(bid) == (Outcome.WON, 7)


def test_refused_by_so_many_that_no_majority_is_left() -> None:
    bid = Bid(3)
    bid.answered(0, granted(5))
    bid.answered(1, refused(recheck=4.0))
    assert end(bid)[0] is None
    bid.answered(2, refused(recheck=3.0))
    assert bid.outcome is Outcome.REFUSED
    assert bid.recheck == 3.0, "then two of three would be free"


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_held_by_someone_and_too_few_nodes_do_not_look_alike(order: tuple[int, ...]) -> None:
    held, down = Bid(3), Bid(3)
    for node in order:
        held.failed(node) if node == 0 else held.answered(node, refused())
        down.answered(node, refused()) if node == 0 else down.failed(node)
    assert held.outcome is Outcome.REFUSED
    assert down.outcome is Outcome.UNREACHABLE


def test_a_blank_node_is_as_good_as_none() -> None:
    bid = Bid(3)
    bid.answered(0, granted(5))
    bid.answered(1, BLANK)
    bid.failed(2)
    assert bid.outcome is Outcome.UNREACHABLE


def test_a_grant_that_is_gone_when_it_is_to_be_raised() -> None:
    bid = Bid(3)
    bid.answered(0, granted(5))
    bid.answered(1, granted(9))
    assert bid.answered(0, refused()) == []
    assert end(bid)[0] is None, "the third may still vote"
    bid.failed(2)
    assert bid.outcome is Outcome.REFUSED


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_ticket_that_looks_again_keeps_its_fence(order: tuple[int, ...]) -> None:
    """Won with 7; the third node had granted under 9 when that was decided."""
    bid = Bid(3, fence=7)
    for node in order:
        assert bid.outcome is not None or bid.answered(node, granted((7, 7, 9)[node])) == []
    assert end(bid) == (Outcome.WON, 7)


def test_a_ticket_that_lost_its_fence_gets_a_higher_one() -> None:
    bid = Bid(3, fence=7)
    bid.answered(0, granted(7))
    assert bid.answered(1, granted(12)) == []
    assert bid.answered(2, granted(12)) == [Raise(0, 12)]
    assert end(bid) == (Outcome.WON, 12)


def test_a_ticket_that_hears_too_little_of_its_fence_gets_no_other() -> None:
    bid = Bid(3, fence=7)
    bid.answered(0, granted(7))
    bid.answered(1, granted(9))
    assert bid.failed(2) == []
    assert bid.outcome is Outcome.UNREACHABLE


def test_abandoned_is_what_no_answer_knows_to_be_clean() -> None:
    bid = Bid(3)
    bid.answered(0, granted(9, dirty=7))
    assert bid.abandoned
    bid.answered(1, granted(9, clean=7))
    assert not bid.abandoned, "the first had missed the release of 7"


@given(st.sampled_from((3, 5)), st.data())
def test_every_order_of_answers_decides(nodes: int, data: st.DataObject) -> None:
    bid = Bid(nodes, data.draw(st.integers(0, 3)))
    fences = [0] * nodes
    asked = dict.fromkeys(range(nodes), 0)
    while asked:
        node = data.draw(st.sampled_from(sorted(asked)))
        fence = asked.pop(node)
        kind = data.draw(st.sampled_from("ggggrbf"))
        if kind == "g":
            fences[node] = max(fences[node] or data.draw(st.integers(1, 4)), fence)
            orders = bid.answered(node, granted(fences[node]))
        elif kind == "f":
            orders = bid.failed(node)
        else:
            orders = bid.answered(node, refused() if kind == "r" else BLANK)
        for order in orders:
            assert order.node not in asked, "one request to a node at a time"
            assert fences[order.node] < order.fence
            asked[order.node] = order.fence
    assert bid.outcome is not None
    if bid.outcome is Outcome.WON:
        assert fences.count(bid.fence) >= majority(nodes)


@pytest.mark.parametrize(
    ("answers", "outcomes"),
    [
        ((True, False, True), (None, None, True)),
        ((False, True, False), (None, None, False)),
        ((True, True), (None, True)),
        # It may be there as well, so that a majority has it.
        ((True, None, False), (None, None, None)),
        ((False, None, False), (None, None, False)),
        ((None, None, True), (None, None, None)),
    ],
)
def test_a_tally(answers: tuple[bool | None, ...], outcomes: tuple[bool | None, ...]) -> None:
    tally, seen = Tally(3), []
    for yes in answers:
        if yes is not None:
            tally.answered(yes)
        seen.append(tally.outcome)
    assert tuple(seen) == outcomes


def test_validity_is_what_drift_and_waiting_leave_of_a_ttl() -> None:
    assert validity(10.0, 0.5) == pytest.approx(10.0 - 0.5 - 0.1 - 0.002)
    assert validity(1.0, 2.0) < 0
    assert validity(3600.0, 0.9 * DECISION_LIMIT) > 3000
    assert validity(3600.0, DECISION_LIMIT) == 0, "no node that forgets waits for so slow a bid"


# --- when a node that may have forgotten something votes again

INTACT = Memory(True, ceiling=50, longest=30.0)


def floor(heard: dict[int, Memory], nodes: int = 3, limit: float = 10.0) -> int | None:
    return floor_for(0, heard, nodes, hint=1_000, limit=limit)


def test_a_blank_node_waits_for_the_longest_ttl_that_anybody_was_granted() -> None:
    others = {1: INTACT, 2: INTACT._replace(longest=60.0, ceiling=70)}
    assert floor({0: Memory(False, age=59.9), **others}) is None
    assert floor({0: Memory(False, age=60.0), **others}) == 70
    assert floor({0: Memory(False, age=60.0), **others}, limit=61.0) is None


def test_a_blank_node_learns_from_so_many_that_none_can_be_missed() -> None:
    blank = Memory(False, age=100.0)
    assert floor({0: blank, 1: INTACT}) is None, "the other one may know of a higher fence"
    assert floor({0: blank, 1: INTACT, 2: INTACT}) == 50
    assert floor({0: blank, 1: INTACT, 2: INTACT}, nodes=5) is None
    assert floor({0: blank, 1: INTACT, 2: INTACT, 3: INTACT}, nodes=5) == 50


def test_when_most_have_forgotten_all_must_answer_and_the_clock_is_trusted() -> None:
    blank = Memory(False, age=100.0)
    assert floor({0: blank, 1: blank, 2: INTACT}) == 1_000
    assert floor({0: blank, 1: blank}) is None


def test_a_new_set_of_nodes_need_not_wait() -> None:
    new = Memory(False)
    assert floor({0: new, 1: new, 2: new}) == 1_000
    assert floor({0: new, 1: new}) is None


def test_a_set_is_not_new_if_one_was_readmitted_before() -> None:
    """The others have not voted yet; this one may have, for a bid that is still under way."""
    new = Memory(False)
    assert floor({0: new, 1: Memory(True), 2: Memory(True)}) is None


# --- why the driver's part is the driver's part


def test_why_an_id_is_never_used_for_another_ticket() -> None:
    nodes = [Node(intact=True) for _ in range(3)]
    fences = []
    for _ in range(2):  # the first one died, and the second one has its id
        bid = Bid(3)
        for index, node in enumerate(nodes):
            bid.answered(index, node.grant("x", "id", 1_000, 0, now=0))
        fences.append(bid.fence)
    assert fences == [1, 1]


def test_why_a_bid_hears_only_answers_to_its_own_requests() -> None:
    nodes = [Node(intact=True) for _ in range(3)]
    stale = nodes[0].grant("x", "a", 1_000, 0, now=0)
    nodes[0].expire("x")
    between, again = Bid(3), Bid(3)
    for index in (0, 1):
        between.answered(index, nodes[index].grant("x", "b", 1_000, 2, now=0))
    assert end(between) == (Outcome.WON, 2)
    again.answered(2, nodes[2].grant("x", "a", 1_000, 0, now=0))
    again.answered(0, stale)
    assert end(again) == (Outcome.WON, 1), "below one that was announced before it began"


def test_why_a_bid_has_a_limit_of_its_own() -> None:
    """A bid that took longer than a node waits would win with a vote that the node has lost."""
    hour = 3_600_000
    nodes = [Node(intact=True) for _ in range(3)]
    slow, other = Bid(3), Bid(3)
    slow.answered(0, nodes[0].grant("x", "slow", hour, 0, now=0))
    nodes[0].forget(Node())
    assert nodes[0].look(now=1).since == 1
    late = 10_001
    heard = {index: node.look(late) for index, node in enumerate(nodes)}
    floor = floor_for(0, heard, 3, hint=0)
    assert floor == 0, "nobody else has heard of that bid yet, nor of its ttl"
    nodes[0].readmit(1, floor, late)
    other.answered(0, nodes[0].grant("x", "other", hour, 0, late))
    other.answered(2, nodes[2].grant("x", "other", hour, 0, late))
    slow.answered(1, nodes[1].grant("x", "slow", hour, 0, late))
    assert end(other) == end(slow) == (Outcome.WON, 1)
    assert validity(3600.0, late / 1000) == 0, "so the slow one does not count"
