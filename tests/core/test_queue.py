"""The reference queue: what every engine must do, so it has to be right itself."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import ALONE, READING, Owner, Place, Share, Standing, Ticket
from tests.effort import effort

TTL = 10.0


def ticket(id: str, ttl: float = TTL, share: Share = ALONE) -> Ticket:
    return Ticket("name", id, ttl, Owner("host", 1, id), share)


@pytest.fixture
def queue() -> TicketQueue:
    return TicketQueue("name")


def ids(tickets: list[Ticket]) -> list[str]:
    return [ticket.id for ticket in tickets]


def test_the_first_is_admitted_and_the_second_waits(queue: TicketQueue) -> None:
    first = queue.enter(ticket("a"), 1.0)
    second = queue.enter(ticket("b"), 2.0)
    assert first.place is Place.ADMITTED
    assert second.place is Place.WAITING
    assert second.fence > first.fence > 0
    assert second.recheck == pytest.approx(9.0), "when the ticket ahead would expire"
    assert queue.told() == []


def test_leaving_tells_exactly_the_next(queue: TicketQueue) -> None:
    for id in "abc":
        queue.enter(ticket(id), 1.0)
    assert queue.leave(ticket("a"), 2.0)
    assert ids(queue.told()) == ["b"]
    assert queue.told() == [], "once"
    assert queue.standing("b", 2.0).place is Place.ADMITTED
    assert queue.standing("c", 2.0).place is Place.WAITING


def test_a_waiter_can_leave(queue: TicketQueue) -> None:
    for id in "abc":
        queue.enter(ticket(id), 1.0)
    assert queue.leave(ticket("b"), 2.0)
    assert queue.told() == []
    assert queue.leave(ticket("a"), 3.0)
    assert ids(queue.told()) == ["c"]


def test_every_operation_can_be_repeated(queue: TicketQueue) -> None:
    first = queue.enter(ticket("a"), 1.0)
    assert queue.enter(ticket("a"), 2.0) == first
    assert queue.renew(ticket("a"), 3.0) == first
    waiting = queue.enter(ticket("b"), 3.0)
    assert queue.enter(ticket("b"), 4.0).fence == waiting.fence
    assert len(queue) == 2
    assert queue.leave(ticket("a"), 5.0)
    assert not queue.leave(ticket("a"), 6.0)
    assert queue.standing("b", 6.0).place is Place.ADMITTED, "the repeat touched nobody else"


def test_a_renewal_never_brings_a_ticket_back(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 1.0)
    queue.leave(ticket("a"), 2.0)
    assert queue.renew(ticket("a"), 3.0) == Standing(Place.GONE)
    assert len(queue) == 0
    queue.enter(ticket("a"), 4.0)
    assert queue.renew(ticket("a"), 4.0 + TTL) == Standing(Place.GONE)
    assert len(queue) == 0


def test_joining_only_if_free(queue: TicketQueue) -> None:
    assert queue.enter(ticket("a"), 1.0, if_free=True).place is Place.ADMITTED
    assert queue.enter(ticket("b"), 2.0, if_free=True) == Standing(Place.REFUSED)
    assert len(queue) == 1
    again = queue.enter(ticket("a"), 3.0, if_free=True)
    assert again.place is Place.ADMITTED, "the holder's own repeat is not refused"


def test_any_request_takes_out_an_expired_holder(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 1.0)
    queue.enter(ticket("b", ttl=100.0), 1.0)
    assert queue.enter(ticket("b", ttl=100.0), 10.9).place is Place.WAITING
    found = queue.enter(ticket("b", ttl=100.0), 11.0)
    assert found.place is Place.ADMITTED
    assert found.abandoned
    assert queue.told() == [], "it asked itself"


def test_a_request_that_finds_an_expired_holder_wakes_the_next(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 1.0)
    queue.enter(ticket("b", ttl=100.0), 1.0)
    queue.enter(ticket("c", ttl=100.0), 11.5)
    assert ids(queue.told()) == ["b"]


def test_a_dead_waiter_does_not_hold_up_the_next(queue: TicketQueue) -> None:
    queue.enter(ticket("a", ttl=100.0), 1.0)
    queue.enter(ticket("dead", ttl=5.0), 1.0)
    queue.enter(ticket("c", ttl=100.0), 1.0)
    queue.leave(ticket("a"), 7.0)
    assert ids(queue.told()) == ["c"]


def test_renewing_extends_and_another_ttl_counts_from_then_on(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 0.0)
    queue.renew(ticket("a", ttl=20.0), 5.0)
    assert queue.inspect(5.0, 0).holders[0].expires_in == pytest.approx(20.0)
    assert queue.renew(ticket("a", ttl=20.0), 24.0).place is Place.ADMITTED


def test_a_late_request_with_a_shorter_ttl_takes_no_time_away(queue: TicketQueue) -> None:
    queue.enter(ticket("a", ttl=60.0), 0.0)
    queue.renew(ticket("a", ttl=1.0), 1.0)
    queue.enter(ticket("a", ttl=1.0), 2.0)
    assert queue.standing("a", 3.0).place is Place.ADMITTED
    assert queue.inspect(3.0, 0).holders[0].expires_in == pytest.approx(57.0)


def test_fences_grow_although_memory_was_lost() -> None:
    before = TicketQueue("name").enter(ticket("a"), 1000.0)
    after = TicketQueue("name").enter(ticket("b"), 1000.001)
    assert after.fence > before.fence


def test_fences_grow_although_the_clock_was_set_back(queue: TicketQueue) -> None:
    first = queue.enter(ticket("a"), 1000.0)
    queue.leave(ticket("a"), 1000.0)
    assert queue.enter(ticket("b"), 5.0).fence == first.fence + 1


def test_abandoned_is_about_the_one_before(queue: TicketQueue) -> None:
    assert not queue.enter(ticket("a"), 0.0).abandoned
    assert queue.enter(ticket("b"), 20.0).abandoned, "a expired"
    assert queue.renew(ticket("b"), 21.0).abandoned, "and b is told so as long as it holds"
    queue.leave(ticket("b"), 22.0)
    assert not queue.enter(ticket("c"), 23.0).abandoned, "b released"
    assert queue.evict(24.0)
    assert queue.enter(ticket("d"), 25.0).abandoned, "c was evicted"


def test_a_waiter_that_dies_or_leaves_abandons_nothing(queue: TicketQueue) -> None:
    queue.enter(ticket("a", ttl=100.0), 0.0)
    queue.enter(ticket("dead", ttl=1.0), 0.0)
    queue.enter(ticket("leaver", ttl=100.0), 0.0)
    queue.leave(ticket("leaver"), 5.0)
    assert not queue.inspect(5.0, 0).abandoned
    queue.leave(ticket("a"), 6.0)
    assert not queue.enter(ticket("b"), 7.0).abandoned


def test_a_waiter_that_leaves_does_not_hide_that_the_holder_was_evicted(
    queue: TicketQueue,
) -> None:
    queue.enter(ticket("a", ttl=100.0), 0.0)
    queue.enter(ticket("b", ttl=100.0), 0.0)
    queue.enter(ticket("c", ttl=100.0), 0.0)
    queue.evict(1.0)
    queue.leave(ticket("c"), 2.0)
    assert queue.standing("b", 3.0).abandoned


def test_evicting_nobody(queue: TicketQueue) -> None:
    assert not queue.evict(1.0)
    queue.enter(ticket("a"), 1.0)
    assert not queue.evict(12.0), "it had expired already"


def test_evicting_a_holder_admits_the_next(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 1.0)
    queue.enter(ticket("b"), 1.0)
    assert queue.evict(2.0)
    assert ids(queue.told()) == ["b"]
    assert queue.renew(ticket("a"), 3.0) == Standing(Place.GONE)
    assert not queue.leave(ticket("a"), 3.0)
    assert queue.standing("b", 3.0) == Standing(Place.ADMITTED, queue.fence, abandoned=True)


def test_a_waiter_behind_several_holders_looks_again_when_any_has_expired(
    queue: TicketQueue,
) -> None:
    for id, ttl in (("a", 30.0), ("b", 10.0), ("c", 20.0)):
        queue.enter(ticket(id, ttl, Share.of(3)), 0.0)
    waiting = queue.enter(ticket("d", 40.0, Share.of(3)), 0.0)
    assert waiting.recheck == pytest.approx(10.0), "one of the three is enough"
    behind = queue.enter(ticket("e", TTL, Share.of(3)), 0.0)
    assert behind.recheck == pytest.approx(40.0), "the waiter ahead watches the holders"


def test_readers_share_and_a_writer_waits_for_all_of_them(queue: TicketQueue) -> None:
    for id in "ab":
        assert queue.enter(ticket(id, TTL, READING), 0.0).place is Place.ADMITTED
    assert queue.enter(ticket("writer"), 1.0).place is Place.WAITING
    assert queue.enter(ticket("c", TTL, READING), 1.0).place is Place.WAITING, "no overtaking"
    assert queue.enter(ticket("d", TTL, READING), 1.0, if_free=True).place is Place.REFUSED
    queue.leave(ticket("a"), 2.0)
    assert queue.told() == []
    queue.leave(ticket("b"), 2.0)
    assert ids(queue.told()) == ["writer"]
    queue.leave(ticket("writer"), 3.0)
    assert ids(queue.told()) == ["c"]


def test_a_writer_that_gives_up_admits_the_readers_behind_it(queue: TicketQueue) -> None:
    queue.enter(ticket("a", TTL, READING), 0.0)
    queue.enter(ticket("writer"), 0.0)
    for id in "bc":
        queue.enter(ticket(id, TTL, READING), 0.0)
    queue.leave(ticket("writer"), 1.0)
    assert ids(queue.told()) == ["b", "c"]


def test_permits_are_taken_by_weight_and_nobody_is_overtaken(queue: TicketQueue) -> None:
    assert queue.enter(ticket("a", TTL, Share.of(3, 2)), 0.0).place is Place.ADMITTED
    assert queue.enter(ticket("b", TTL, Share.of(3, 2)), 0.0).place is Place.WAITING
    assert queue.enter(ticket("c", TTL, Share.of(3, 1)), 0.0).place is Place.WAITING
    queue.leave(ticket("a"), 1.0)
    assert ids(queue.told()) == ["b", "c"]


def test_another_number_of_permits_waits_until_the_others_are_done(queue: TicketQueue) -> None:
    assert queue.enter(ticket("a", TTL, Share.of(3)), 0.0).place is Place.ADMITTED
    assert queue.enter(ticket("b", TTL, Share.of(9)), 0.0).place is Place.WAITING
    assert queue.enter(ticket("c", TTL, Share.of(3)), 0.0).place is Place.WAITING
    queue.leave(ticket("a"), 1.0)
    assert ids(queue.told()) == ["b"]


def test_a_ticket_that_holds_alone_may_join_a_group_and_never_go_back(queue: TicketQueue) -> None:
    queue.enter(ticket("a"), 0.0)
    queue.enter(ticket("b", TTL, READING), 0.0)
    assert queue.enter(ticket("a", TTL, READING), 1.0).place is Place.ADMITTED
    assert ids(queue.told()) == ["b"]
    queue.enter(ticket("a"), 2.0)
    assert len(queue.inspect(2.0, 0).holders) == 2
    assert {one.share for one in queue.inspect(2.0, 0).holders} == {READING}
    queue.enter(ticket("writer"), 2.0)
    queue.enter(ticket("writer", TTL, READING), 3.0)
    assert queue.inspect(3.0, 9).waiters[0].share == ALONE, "a waiter keeps its share"


def test_a_ticket_that_shares_neither_sets_nor_clears_abandoned(queue: TicketQueue) -> None:
    queue.enter(ticket("reader", 1.0, READING), 0.0)
    assert not queue.enter(ticket("writer", 1.0), 2.0).abandoned, "a reader's end means nothing"
    assert queue.enter(ticket("a", TTL, READING), 4.0).abandoned, "the writer expired"
    queue.leave(ticket("a"), 5.0)
    queue.enter(ticket("b", TTL, READING), 5.0)
    queue.evict(6.0)
    assert queue.enter(ticket("c"), 7.0).abandoned, "and no reader has repaired it"


RATE = Share.rate(2, 3.0)


def test_a_permit_of_a_rate_lasts_from_its_admission(queue: TicketQueue) -> None:
    for id in "abcd":
        queue.enter(ticket(id, share=RATE), 1.0)
    assert queue.renew(ticket("a", ttl=99.0, share=RATE), 3.0).place is Place.ADMITTED
    assert queue.renew(ticket("c", share=RATE), 3.9).recheck == pytest.approx(0.1)
    refused = queue.enter(ticket("e", share=RATE), 3.9, if_free=True)
    assert refused.place is Place.REFUSED
    assert refused.recheck == pytest.approx(0.1)
    assert queue.enter(ticket("c", share=RATE), 4.0).place is Place.ADMITTED
    assert ids(queue.told()) == ["d"]
    assert [one.expires_in for one in queue.inspect(4.0, 0).holders] == [3.0, 3.0]
    assert queue.renew(ticket("a", share=RATE), 4.0).place is Place.GONE


def test_the_next_waiter_of_a_rate_is_told_that_it_is_the_first(queue: TicketQueue) -> None:
    alone = Share.rate(1, 3.0)
    for id in "abc":
        queue.enter(ticket(id, ttl=99.0, share=alone), 1.0)
    assert queue.enter(ticket("b", ttl=99.0, share=alone), 4.0).place is Place.ADMITTED
    assert ids(queue.told()) == ["c"]
    assert queue.standing("c", 4.0) == Standing(Place.WAITING, queue.fence, recheck=3.0)
    assert queue.leave(ticket("b"), 5.0), "its caller was cancelled at the last moment"
    assert ids(queue.told()) == ["c"]


@pytest.mark.parametrize(
    "group", ["rate ", "rate x", "rate 0", "rate -1", "rate 1e9", "rate \u0663"]
)
def test_what_is_no_rate(group: str) -> None:
    assert Share(group).lasts == 0.0
    assert Share(group).kind == "semaphore"
    assert Share.rate(1, 0.25).lasts == 0.25
    assert Share.rate(1, 0.25).kind == "rate"


def test_a_fence_is_lifted_above_what_somebody_has_seen(queue: TicketQueue) -> None:
    seen = 10**15
    first = queue.enter(ticket("a")._replace(floor=seen), 1.0)
    assert first.fence == seen + 1
    assert queue.enter(ticket("a")._replace(floor=2 * seen), 1.0).fence == first.fence
    assert queue.enter(ticket("b"), 1.0).fence > first.fence


def test_a_mutex_looks_again_when_the_one_ahead_has_expired(queue: TicketQueue) -> None:
    for id, ttl in (("a", 10.0), ("b", 30.0), ("c", 20.0)):
        queue.enter(ticket(id, ttl=ttl), 0.0)
    assert queue.enter(ticket("d"), 0.0).recheck == pytest.approx(20.0)


def test_inspecting(queue: TicketQueue) -> None:
    assert queue.inspect(0.0, 10).holders == ()
    for index, id in enumerate("abcd"):
        queue.enter(ticket(id), float(index))
    seen = queue.inspect(4.0, 2)
    assert [holder.owner.label for holder in seen.holders] == ["a"]
    assert [waiter.owner.label for waiter in seen.waiters] == ["b", "c"]
    assert seen.waiting == 3
    assert seen.fence == queue.fence
    assert (seen.holders[0].held_for, seen.holders[0].expires_in) == pytest.approx((4.0, 6.0))
    assert (seen.waiters[0].waiting_for, seen.waiters[0].expires_in) == pytest.approx((3.0, 7.0))
    assert not seen.abandoned


class QueueMachine(RuleBasedStateMachine):
    """Any sequence of requests, of any kind of lock, with time going on in between."""

    SHARES: ClassVar[tuple[Share, ...]] = (ALONE,)

    def __init__(self) -> None:
        super().__init__()
        self.queue = TicketQueue("name")
        self.now = 1000.0
        self.newest = 0
        self.tickets: dict[str, Ticket] = {}
        self.fences: dict[str, int] = {}
        """Of each ticket that is thought to be in the queue."""
        self.expires: dict[str, float] = {}

    def holders(self) -> list[str]:
        return [id for id in self.fences if self.place(id) is Place.ADMITTED]

    def place(self, id: str) -> Place:
        return self.queue.standing(id, self.now).place

    def alive(self) -> dict[str, int]:
        return {id: fence for id, fence in self.fences.items() if self.expires[id] > self.now}

    def settle(self, asking: str, before: list[str]) -> None:
        """After each request: expired tickets are gone, and exactly the others' admissions are told."""
        self.fences = self.alive()
        new = [id for id in self.holders() if id not in before]
        told = ids(self.queue.told())
        assert sorted(told) == sorted(id for id in new if id != asking)
        assert len(self.queue) == len(self.fences)

    def known(self, number: int) -> Ticket:
        share = self.SHARES[number % len(self.SHARES)]
        return self.tickets.setdefault(str(number), ticket(str(number), 1.0 + number % 5, share))

    @rule(number=st.integers(0, 9), if_free=st.booleans())
    def enter(self, number: int, if_free: bool) -> None:
        mine, before = self.known(number), self.holders()
        was = self.alive().get(mine.id)
        standing = self.queue.enter(mine, self.now, if_free=if_free)
        if standing.place is Place.REFUSED:
            assert if_free
            assert was is None
        else:
            if was is None:
                assert standing.fence > self.newest, "fences only grow"
                assert not if_free or standing.place is Place.ADMITTED
                self.newest = standing.fence
            else:
                assert standing.fence == was, "a repeat means the same thing"
            self.fences[mine.id] = standing.fence
            self.expires[mine.id] = self.now + mine.ttl
            assert (standing.recheck < 1e9) is (standing.place is Place.WAITING)
        self.settle(mine.id, before)

    @rule(number=st.integers(0, 9))
    def renew(self, number: int) -> None:
        mine, before = self.known(number), self.holders()
        was = self.alive().get(mine.id)
        standing = self.queue.renew(mine, self.now)
        assert (standing.place is Place.GONE) is (was is None)
        if was is not None:
            assert standing.fence == was
            self.expires[mine.id] = self.now + mine.ttl
        self.settle(mine.id, before)

    @rule(number=st.integers(0, 9))
    def leave(self, number: int) -> None:
        mine, before = self.known(number), self.holders()
        was = self.alive().pop(mine.id, None)
        assert self.queue.leave(mine, self.now) is (was is not None)
        self.fences.pop(mine.id, None)
        self.settle(mine.id, before)

    @rule()
    def evict(self) -> None:
        before = self.holders()
        present = set(self.alive())
        evicted = self.queue.evict(self.now)
        gone = {id for id in present if self.place(id) is Place.GONE}
        assert evicted is bool(gone)
        for id in gone:
            del self.fences[id]
        # A ticket that was admitted and evicted at once need not hear of it.
        told = set(ids(self.queue.told()))
        self.fences = self.alive()
        assert told - gone == {id for id in self.holders() if id not in before}

    @precondition(lambda self: self.fences)
    @rule(seconds=st.sampled_from([0.0, 0.001, 0.5, 2.0, 6.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @invariant()
    def nobody_is_overtaken(self) -> None:
        in_order = sorted(self.alive(), key=lambda id: self.fences[id])
        places = [self.place(id) for id in in_order]
        assert places == sorted(places, reverse=True), "all holders stand before all waiters"

    @invariant()
    def the_lock_is_kept(self) -> None:
        holding = [self.tickets[id].share for id in self.holders() if id in self.alive()]
        assert len({share.group for share in holding}) <= 1
        if holding and not holding[0].group:
            assert len(holding) == 1
        assert sum(share.weight for share in holding) <= max([1, *(one.permits for one in holding)])


class SemaphoreMachine(QueueMachine):
    SHARES = (Share.of(3), Share.of(3, 2))


class ReadersAndWritersMachine(QueueMachine):
    SHARES = (READING, READING, ALONE)


class AnythingMachine(QueueMachine):
    SHARES = (READING, ALONE, Share.of(3), Share.of(2))


TestMutex = QueueMachine.TestCase
TestSemaphore = SemaphoreMachine.TestCase
TestReadersAndWriters = ReadersAndWritersMachine.TestCase
TestAnything = AnythingMachine.TestCase
for case in (TestMutex, TestSemaphore, TestReadersAndWriters, TestAnything):
    case.settings = settings(max_examples=effort(60, 1_000), stateful_step_count=40, deadline=None)
