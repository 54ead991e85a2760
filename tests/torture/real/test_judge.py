"""The judge: what it must call broken, and what it must never call so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencelock.core.ticket import ALONE, READING, Share
from fencelock.torture.real.history import History, Occurrence, RealWrite, Span, Turn
from fencelock.torture.real.judge import bound_of, hits, judge, verdict_of, what_it_hit
from fencelock.torture.real.plan import Plan
from fencelock.torture.real.register import Final
from fencelock.torture.records import Attempt, Grant, Write

PLAN = Plan(run="r", storage="sqlite:///x", seed=1, ttl=2.0)
NAME = PLAN.names[0]
STOPPED: dict[str, Any] = {"kind": "stop", "title": "a process is stopped", "of_engine": False}
WIPED: dict[str, Any] = {"kind": "memory-lost", "title": "a server starts empty", "of_engine": True}


class Died(NamedTuple):
    """As much of a worker's life as the judge looks at."""

    worker: str
    how: str = "ended"
    ended: float = 100.0
    began: float = 0.0
    journal: Path = Path("/nowhere")


def history(**facts: Any) -> History:
    """Nothing happened, and one fault hit a holder before that."""
    made = History(
        plan=PLAN,
        fifo=True,
        overstay=0.0,
        began=0.0,
        ended=100.0,
        lives=[],
        occurrences=[],
        final=Final([], dict.fromkeys(PLAN.names, 0), dict.fromkeys(PLAN.names, 0)),
        leftovers=[],
    )
    for key, value in facts.items():
        setattr(made, key, value)
    return made


def turn(
    worker: str,
    asked: float,
    held: float | None = None,
    until: float | None = None,
    *,
    fence: int = 0,
    share: Share = ALONE,
    queued: float | None = None,
    outcome: str = "done",
    timeout: float = 40.0,
) -> Turn:
    attempt = Attempt(worker, f"turn at {asked}", NAME, PLAN.ttl, timeout, asked, share)
    attempt.outcome = outcome
    attempt.ended = until if until is not None else asked + timeout
    made = Turn(attempt, "lock")
    if queued is not None:
        made.queued = queued
    if held is not None:
        assert until is not None
        attempt.got = held
        made.grant = Grant(attempt, fence, held, until, abandoned=False, closed=until)
    return made


def fault(
    at: float, until: float, *lanes: str, suspends: tuple[str, ...] = (), **what: Any
) -> Occurrence:
    what = {**STOPPED, **what}
    return Occurrence(
        target="?", lanes=lanes, span=Span(at, until), suspends=frozenset(suspends), **what
    )


EXERCISED = [turn("w9.1", 0.0, 0.1, 0.3, fence=1)]
HIT = [fault(0.1, 0.2, "w9")]


def verdicts(
    turns: list[Turn], occurrences: Sequence[Occurrence] = (), **facts: Any
) -> dict[str, str]:
    turns = sorted([*EXERCISED, *turns], key=lambda each: each.attempt.started)
    judged = judge(history(turns=turns, occurrences=[*HIT, *occurrences], **facts))
    return {each.promise.id: each.verdict for each in judged}


def test_a_run_in_which_all_is_well_is_held() -> None:
    found = verdicts([turn("w1.1", 1.0, 1.1, 2.0, fence=2), turn("w2.1", 1.2, 2.1, 3.0, fence=3)])
    assert set(found.values()) == {"held", "not exercised"}, found
    assert found["exclusion"] == found["progress"] == "held"


def test_nothing_is_proved_if_no_fault_hits_a_holder() -> None:
    judged = judge(history(turns=[turn("w1.1", 1.0, 1.1, 2.0, fence=2)]))
    assert verdict_of(judged) == "not exercised"
    assert all(each.verdict == "not exercised" for each in judged)


def test_what_is_broken_is_broken_even_if_no_fault_hit_anything() -> None:
    judged = judge(history(leftovers=["a ticket stays"]))
    assert verdict_of(judged) == "broken"


def test_two_holders_at_once() -> None:
    found = verdicts([turn("w1.1", 1.0, 1.1, 3.0, fence=2), turn("w2.1", 1.2, 2.0, 3.0, fence=3)])
    assert found["exclusion"] == "broken"


def test_readers_may_hold_together_but_no_writer_beside_them() -> None:
    readers = [turn(f"w{n}.1", 1.0, 1.1, 3.0, fence=n + 1, share=READING) for n in (1, 2)]
    assert verdicts(readers)["exclusion"] == "held"
    writer = turn("w3.1", 1.2, 2.0, 3.0, fence=4)
    assert verdicts([*readers, writer])["exclusion"] == "broken"


def test_no_more_holders_than_permits() -> None:
    holders = [turn(f"w{n}.1", 1.0, 1.1, 3.0, fence=n + 1, share=Share.of(3)) for n in range(1, 5)]
    assert verdicts(holders[:3])["exclusion"] == "held"
    assert verdicts(holders)["exclusion"] == "broken"


def test_an_engine_that_forgets_does_not_promise_exclusion_until_its_leases_are_over() -> None:
    turns = [turn("w1.1", 1.0, 1.1, 3.0, fence=2), turn("w2.1", 2.5, 2.6, 3.0, fence=3)]
    wiped = fault(2.0, 2.4, suspends=("exclusion",), **WIPED)
    assert verdicts(turns, [wiped])["exclusion"] == "held"
    long_ago = fault(-9.0, -8.0, suspends=("exclusion",), **WIPED)
    assert verdicts(turns, [long_ago])["exclusion"] == "broken"


def test_a_fence_that_falls() -> None:
    turns = [turn("w1.1", 1.0, 1.1, 2.0, fence=5), turn("w2.1", 2.1, 2.2, 3.0, fence=4)]
    assert verdicts(turns)["fences_grow"] == "broken"
    forgotten = fault(2.0, 2.1, suspends=("fences_grow",), **WIPED)
    assert verdicts(turns, [forgotten])["fences_grow"] == "held"


@pytest.mark.parametrize(
    ("writes", "promise"),
    [
        ([Write(NAME, 5, "a", 1, 0), Write(NAME, 4, "b", 2, 1)], "no_stale_write"),
        ([Write(NAME, 5, "a", 1, 0), Write(NAME, 5, "b", 2, 1)], "no_stale_write"),
        ([Write(NAME, 5, "a", 1, 0), Write(NAME, 6, "b", 1, 1)], "no_lost_update"),
    ],
)
def test_writes_that_break_a_promise(writes: list[Write], promise: str) -> None:
    stored = Final(writes, {**dict.fromkeys(PLAN.names, 0), NAME: len(writes)}, {})
    holder = turn("w1.1", 1.0, 1.1, 2.0, fence=5)
    seen = [RealWrite(holder, 1.5, 1, 0, "accepted", None, False)]
    assert verdicts([holder], final=stored, writes=seen)[promise] == "broken"


def test_an_update_that_was_confirmed_and_is_not_there() -> None:
    holder = turn("w1.1", 1.0, 1.1, 2.0, fence=5)
    seen = [RealWrite(holder, 1.5, 1, 0, "accepted", None, False)]
    counts = {f"acknowledged {name}": 1 for name in PLAN.names}
    made = history(turns=[holder], writes=seen)
    made.counts.update(counts)
    judged = {each.promise.id: each.verdict for each in judge(made)}
    assert judged["no_lost_update"] == "broken"


# --- order


def overtaken(**waiter: Any) -> list[Turn]:
    """One waits from 1.0 on; another one asks at 1.5, and gets the lock first."""
    return [
        turn("w3.1", 0.5, 0.6, 2.0, fence=2),
        turn("w1.1", 1.0, **({"held": 3.1, "until": 4.0, "fence": 3, "queued": 1.1} | waiter)),
        turn("w2.1", 1.5, 2.1, 3.0, fence=4),
    ]


def test_a_waiter_that_is_overtaken() -> None:
    assert verdicts(overtaken())["order"] == "broken"


def test_a_waiter_that_was_stopped_may_be_overtaken() -> None:
    assert verdicts(overtaken(), [fault(1.2, 1.4, "w1")])["order"] == "held"
    assert verdicts(overtaken(), [fault(1.2, 1.4, "w2")])["order"] == "broken"
    assert verdicts(overtaken(), [fault(1.2, 1.4, **WIPED)])["order"] == "held"
    assert verdicts(overtaken(), stalls=[Span(1.2, 1.6)])["order"] == "held"


def test_a_waiter_whose_time_was_up_has_gone() -> None:
    gone = {"held": None, "until": 2.5, "outcome": "timeout", "timeout": 1.0}
    assert verdicts(overtaken(**gone))["order"] == "held"
    assert verdicts(overtaken(**gone | {"timeout": 1.4}))["order"] == "broken"


def test_without_a_queue_there_is_no_order() -> None:
    assert verdicts(overtaken(), fifo=False)["order"] == "not promised"


# --- progress

BOUND = bound_of(history())


def stuck(**facts: Any) -> str:
    """Nobody holds, and a caller waits for longer than the bound."""
    occurrences = facts.pop("occurrences", [])
    waiter = turn("w1.1", 1.0, BOUND + 2.0, BOUND + 3.0, fence=2)
    return verdicts([waiter], occurrences, **facts)["progress"]


def test_a_lock_that_is_stuck() -> None:
    assert stuck() == "broken"


def test_time_in_which_something_was_in_the_way_does_not_count() -> None:
    assert stuck(stalls=[Span(5.0, 9.0)]) == "held"
    assert stuck(occurrences=[fault(5.0, 9.0, **WIPED)]) == "held"
    assert stuck(occurrences=[fault(5.0, 9.0, "w1")]) == "held"
    assert stuck(occurrences=[fault(5.0, 9.0, "w2")]) == "broken"
    # A process that was stopped in a transaction keeps the others out of the storage.
    assert stuck(occurrences=[fault(5.0, 9.0, "w2")], storing={"w2.1": [Span(4.9, 9.1)]}) == "held"


def test_an_attempt_that_never_ends() -> None:
    waiter = turn("w1.1", 1.0)
    waiter.attempt.ended = float("inf")
    assert verdicts([waiter])["progress"] == "broken"


# --- what the faults have hit


def test_what_a_fault_has_hit() -> None:
    turns = [
        turn("w1.1", 1.0, 1.1, 3.0, fence=2),
        turn("w2.1", 1.2, 3.1, 3.5, fence=3, queued=1.3),
    ]
    made = history(turns=turns, requests={"w3.1": [Span(1.9, 2.1)]})
    seen = {lane: what_it_hit(made, fault(2.0, 2.1, lane)) for lane in ("w1", "w2", "w3", "w4")}
    assert seen == {"w1": ["holder"], "w2": ["waiter"], "w3": ["request"], "w4": []}
    assert what_it_hit(made, fault(2.0, 2.1)) == ["holder", "waiter", "request"]
    made.occurrences = [fault(2.0, 2.1, "w1"), fault(2.0, 2.1, "w4")]
    assert hits(made)["stop"][1:] == (2, 1, 0, 0)
