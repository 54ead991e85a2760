"""The state machine of a claim, as a table: each state, each verb, and the state after it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from fencelock.core.ticket import Departure, Owner, Place, Standing, Ticket
from fencelock.primitives.claim import (
    CLOSED,
    ENDED,
    EVICTED,
    EXPIRED,
    GRANTED,
    HELD,
    OUTSIDE,
    PROGRAM_ENDED,
    QUEUED,
    RELEASED,
    WITHDRAWN,
    Claim,
    State,
)

TTL, FENCE = 10.0, 7
WAITING = Standing(Place.WAITING, FENCE, recheck=2.0)
ADMITTED = Standing(Place.ADMITTED, FENCE)
OTHER_FENCE = Standing(Place.ADMITTED, FENCE + 1)
GONE, REFUSED = Standing(Place.GONE), Standing(Place.REFUSED)


def claim_in(state: State) -> Claim:
    """A claim that has come to a state by its verbs, at the moment 1.0."""
    context: Any = None  # the state machine never looks at it
    claim = Claim(context, Ticket("x", "id", TTL, Owner("host", 1)), object())
    if state is not OUTSIDE:
        claim.asked()
        claim.answered(WAITING if state is QUEUED else ADMITTED, 0.5, 1.0, joining=True)
    if state is HELD:
        claim.held(1.0)
    if state is ENDED:
        claim.ended(WITHDRAWN)
    assert claim.state is state
    return claim


def joined(standing: Standing) -> Callable[[Claim], Any]:
    def act(claim: Claim) -> Any:
        claim.asked()
        return claim.answered(standing, 2.0, 3.0, joining=True)

    return act


def renewed(standing: Standing, sent: float = 2.0, now: float = 3.0) -> Callable[[Claim], Any]:
    return lambda claim: claim.answered(standing, sent, now)


def woken(standing: Standing | None) -> Callable[[Claim], Any]:
    return lambda claim: claim.woken(standing, 3.0)


ALL = (OUTSIDE, QUEUED, GRANTED, HELD, ENDED)
TABLE: dict[str, tuple[Callable[[Claim], Any], tuple[State, ...]]] = {
    # verb                        from OUTSIDE  QUEUED   GRANTED  HELD     ENDED
    "asked": (Claim.asked, ALL),
    "joined: WAITING": (joined(WAITING), (QUEUED, QUEUED, QUEUED, HELD, ENDED)),
    "joined: ADMITTED": (joined(ADMITTED), (GRANTED, GRANTED, GRANTED, HELD, ENDED)),
    "joined: REFUSED": (joined(REFUSED), (OUTSIDE, OUTSIDE, OUTSIDE, HELD, ENDED)),
    "renewed: WAITING": (renewed(WAITING), (OUTSIDE, QUEUED, QUEUED, HELD, ENDED)),
    "renewed: ADMITTED": (renewed(ADMITTED), (OUTSIDE, GRANTED, GRANTED, HELD, ENDED)),
    "renewed: GONE": (renewed(GONE), (OUTSIDE, OUTSIDE, OUTSIDE, HELD, ENDED)),
    "an answer older than the newest": (renewed(GONE, 0.1, 9.0), ALL),
    "woken: ADMITTED": (woken(ADMITTED), (OUTSIDE, GRANTED, GRANTED, HELD, ENDED)),
    "woken: WAITING": (woken(WAITING), ALL),
    "woken: another fence": (woken(OTHER_FENCE), ALL),
    "woken: nothing said": (woken(None), ALL),
    "doubted": (Claim.doubted, (OUTSIDE, OUTSIDE, OUTSIDE, HELD, ENDED)),
    "unrenewed": (Claim.unrenewed, ALL),
    "held": (lambda claim: claim.held(3.0), (HELD, HELD, HELD, HELD, ENDED)),
    "ended": (lambda claim: claim.ended(RELEASED), (ENDED,) * 5),
}


@pytest.mark.parametrize("verb", TABLE)
@pytest.mark.parametrize("before", ALL, ids=lambda state: state.name)
def test_transitions(before: State, verb: str) -> None:
    act, after = TABLE[verb]
    claim = claim_in(before)
    act(claim)
    assert claim.state is after[ALL.index(before)]


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (renewed(ADMITTED), None),
        (renewed(GONE), EVICTED),
        (renewed(WAITING), EVICTED),
        (renewed(OTHER_FENCE), EVICTED),
        (renewed(GONE, sent=0.9, now=3.0), None),  # sent before the caller had the lease: old news
        (renewed(ADMITTED, now=TTL + 1), EXPIRED),
    ],
    ids=["admitted", "gone", "waiting", "another fence", "gone, sent before", "too late"],
)
def test_what_an_answer_means_for_a_held_lease(
    act: Callable[[Claim], Any], reason: str | None
) -> None:
    claim = claim_in(HELD)
    assert act(claim) == reason
    assert claim.state is HELD, "the context ends it, with all that belongs to an end"


def test_the_deadline_counts_from_the_newest_request() -> None:
    claim = claim_in(QUEUED)
    first = claim.deadline
    assert 0.5 < first < 0.5 + TTL
    claim.answered(ADMITTED, 2.0, 3.0)
    assert claim.deadline == first + 1.5
    claim.unrenewed()
    claim.answered(GONE, 1.0, 4.0)
    assert claim.deadline == first + 1.5, "an older answer takes nothing away"
    assert claim.suspended
    claim.answered(ADMITTED, 5.0, 6.0)
    assert not claim.suspended


def test_requests_without_an_answer_are_counted() -> None:
    claim = claim_in(OUTSIDE)
    for _ in range(3):
        claim.asked()
    claim.not_applied()
    claim.answered(ADMITTED, 1.0, 2.0, joining=True)
    assert claim.unanswered == 1
    claim.answered(ADMITTED, 3.0, 4.0)
    assert claim.unanswered == 1, "an answer to a renewal says nothing about it"


def test_a_push_only_says_something_about_a_ticket_that_waits() -> None:
    assert claim_in(QUEUED).woken(ADMITTED, 3.0)
    assert claim_in(GRANTED).woken(None, 3.0), "it has been admitted meanwhile: no need to ask"
    assert not claim_in(QUEUED).woken(OTHER_FENCE, 3.0)
    assert not claim_in(OUTSIDE).woken(ADMITTED, 3.0)
    claim = claim_in(QUEUED)
    assert claim.recheck_at == 0.5 + 2.0
    claim.woken(Standing(Place.WAITING, FENCE, recheck=9.0), 3.0)
    assert claim.recheck_at == 12.0


def test_only_the_first_end_counts() -> None:
    claim = claim_in(HELD)
    assert claim.ended(EXPIRED)
    assert not claim.ended(RELEASED)
    assert claim.reason == EXPIRED


@pytest.mark.parametrize(
    ("state", "reason", "departure"),
    [
        (OUTSIDE, EXPIRED, Departure.WITHDRAWN),
        (GRANTED, RELEASED, Departure.WITHDRAWN),
        (HELD, WITHDRAWN, Departure.WITHDRAWN),
        (HELD, RELEASED, Departure.RELEASED),
        (HELD, CLOSED, Departure.RELEASED),
        (HELD, PROGRAM_ENDED, Departure.RELEASED),
        (HELD, EXPIRED, Departure.LOST),
        (HELD, EVICTED, Departure.LOST),
    ],
)
def test_how_its_ticket_leaves(state: State, reason: str, departure: Departure) -> None:
    claim = claim_in(state)
    assert claim.departure(reason) is departure
    claim.ended(reason)
    assert claim.departure(reason) is departure, "the end does not change it"


def test_a_shorter_ttl_counts_at_once_and_a_longer_one_when_it_is_confirmed() -> None:
    claim = claim_in(HELD)
    before = claim.deadline
    claim.change_ttl(100.0, 2.0)
    assert claim.deadline == before
    claim.change_ttl(1.0, 2.0)
    assert claim.deadline < 3.0
    assert claim.ticket.ttl == 1.0


def test_a_ttl_that_nobody_asked_for_may_be_shortened() -> None:
    context: Any = None
    ticket = Ticket("x", "id", TTL, Owner("host", 1))
    flexible, asked_for = Claim(context, ticket, object(), flexible=True), claim_in(OUTSIDE)
    assert flexible.shorten(5.0)
    assert flexible.ticket.ttl == 5.0
    assert not flexible.shorten(math.inf)
    assert not asked_for.shorten(5.0)
