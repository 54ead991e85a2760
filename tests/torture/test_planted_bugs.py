"""A check that can't fail is worth nothing: each bug planted here must be caught by its checker.

The bugs are planted from outside, by subclasses and patches; the code itself has no switch for them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import Departure, Standing, Ticket
from fencelock.engines import memory
from fencelock.primitives import context, waiting
from fencelock.primitives.claim import EXPIRED, Claim
from fencelock.primitives.context import Context
from fencelock.primitives.lease import AsyncLease, BaseLease
from fencelock.primitives.schedule import Schedule
from fencelock.primitives.sighting import Sighting
from fencelock.primitives.sweeper import Sweeper
from fencelock.torture.simulate import Simulation
from fencelock.torture.storage import GuardedCounters
from fencelock.torture.workers import Worker

SEEDS = 1_000
"""How many schedules may pass before a bug is caught; most need fewer than ten."""

Patch = pytest.MonkeyPatch


def caught_by(
    checkers: set[str], simulation: type[Simulation] = Simulation, first: int = 0
) -> None:
    """Run schedules until one of these checkers objects; the test fails if none ever does.

    For a bug that is seldom caught, `first` is where it was caught when the test was written.
    """
    others: set[str] = set()
    for seed in range(first, first + SEEDS):
        found = {violation.partition(":")[0] for violation in simulation(seed).run().violations}
        if found & checkers:
            return
        others |= found
    pytest.fail(f"not caught by {checkers} in {SEEDS} schedules; others objected: {others}")


def with_context(kind: type[Context]) -> type[Simulation]:
    return type("Planted", (Simulation,), {"context": kind})


def with_worker(kind: type[Worker]) -> type[Simulation]:
    return type("Planted", (Simulation,), {"worker": kind})


# --- the context and the keeper


def test_waiters_that_are_not_renewed() -> None:
    class Planted(Context):
        def keep(self, claim: Claim) -> None:
            pass

    caught_by({"nothing_leaked"}, with_context(Planted))


def test_a_holder_that_ignores_its_deadline(monkeypatch: Patch) -> None:
    class Planted(Context):
        def lose(self, claim: Claim, reason: str) -> None:
            if reason is not EXPIRED:
                super().lose(claim, reason)

    monkeypatch.setattr(BaseLease, "_notice", lambda self: None)
    caught_by({"loss_is_noticed"}, with_context(Planted))


def test_a_loss_that_is_noticed_only_at_the_next_renewal(monkeypatch: Patch) -> None:
    class Planted(Schedule):
        def postpone(self, claim: Claim, due: float) -> None:
            super().postpone(claim, due)
            if (entry := self.entries.get(claim.ticket.id)) is not None:
                entry.due += claim.ticket.ttl / 3

    monkeypatch.setattr(context, "Schedule", Planted)
    caught_by({"loss_is_noticed"})


# --- the waiting loop


def test_a_deadline_that_is_counted_from_the_reply(monkeypatch: Patch) -> None:
    answered = Claim.answered

    def optimistic(
        self: Claim, standing: Standing, sent: float, now: float, joining: bool = False
    ) -> str | None:
        return answered(self, standing, now, now, joining)

    monkeypatch.setattr(Claim, "answered", optimistic)
    caught_by({"one_believer"})


def test_no_clean_up_on_cancellation(monkeypatch: Patch) -> None:
    async def forget_only(claim: Claim, patience: float) -> None:
        claim.context.forget(claim)

    monkeypatch.setattr(waiting, "withdraw", forget_only)
    caught_by({"nothing_leaked"})


def test_a_clean_up_that_believes_the_first_answer(monkeypatch: Patch) -> None:
    class Planted(Sweeper):
        async def _drop(self, id: str, *, timeout: float = 2.0) -> bool:
            answered = await super()._drop(id, timeout=timeout)
            if answered:
                self._doomed.pop(id, None)
            return answered

    monkeypatch.setattr(context, "Sweeper", Planted)
    caught_by({"nothing_leaked"})


# --- the engine


def plant_queue(monkeypatch: Patch, kind: type[TicketQueue]) -> None:
    monkeypatch.setattr(memory, "TicketQueue", kind)


def test_a_fence_that_restarts_when_memory_is_lost(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def enter(self, ticket: Ticket, now: float, *, if_free: bool = False) -> Standing:
            known, before = ticket.id in self._entries, self.fence
            standing = super().enter(ticket, now, if_free=if_free)
            if not known and ticket.id in self._entries:
                self.fence = self._entries[ticket.id].fence = before + 1
                standing = standing._replace(fence=self.fence)
            return standing

    plant_queue(monkeypatch, Planted)
    caught_by({"fences_grow"})


def test_a_renewal_that_brings_a_ticket_back(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def renew(self, ticket: Ticket, now: float) -> Standing:
            return self.enter(ticket, now)

    plant_queue(monkeypatch, Planted)
    caught_by({"nothing_leaked"})


def test_a_late_renewal_that_takes_time_away(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def enter(self, ticket: Ticket, now: float, *, if_free: bool = False) -> Standing:
            standing = super().enter(ticket, now, if_free=if_free)
            if ticket.id in self._entries:
                self._entries[ticket.id].expires = now + ticket.ttl
            return standing

    plant_queue(monkeypatch, Planted)
    caught_by({"one_believer"}, first=61)


def test_a_queue_in_which_newcomers_overtake(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def enter(self, ticket: Ticket, now: float, *, if_free: bool = False) -> Standing:
            known = ticket.id in self._entries
            standing = super().enter(ticket, now, if_free=if_free)
            waiting = [entry for entry in self._entries.values() if entry.admitted_at is None]
            if known or len(waiting) < 2 or waiting[-1].ticket.id != ticket.id:
                return standing
            front = waiting[0].fence
            ahead = max(entry.fence for entry in self._entries.values() if entry.fence < front)
            waiting[-1].fence = (ahead + front) // 2
            in_order = sorted(self._entries.items(), key=lambda item: item[1].fence)
            self._entries = dict(in_order)
            return self._standing(waiting[-1], now)

    plant_queue(monkeypatch, Planted)
    caught_by({"first_come_first_served"})


def test_a_wake_up_for_nobody(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def told(self) -> list[Ticket]:
            super().told()
            return []

    plant_queue(monkeypatch, Planted)
    caught_by({"progress"})


def test_a_release_that_does_not_ask_whose_lock_it_is(monkeypatch: Patch) -> None:
    class Planted(TicketQueue):
        def leave(
            self, ticket: Ticket, now: float, departure: Departure = Departure.RELEASED
        ) -> bool:
            if super().leave(ticket, now, departure):
                return True
            return self.evict(now)

    plant_queue(monkeypatch, Planted)
    caught_by({"no_loss_without_cause", "one_believer"})


# --- the storage


def test_a_guard_without_the_read_barrier() -> None:
    class Planted(Worker):
        async def update(self, lease: AsyncLease, careless: bool) -> bool:
            value = await self.counters.read(self.io, lease.name)
            await self.think(lease)
            if not careless:
                lease.check()
            self.doze(lease)
            return await self.counters.write(self.io, lease.name, lease.fence, lease.id, value + 1)

    caught_by({"no_lost_update"}, with_worker(Planted), first=148)


@pytest.mark.parametrize("checker", ["no_stale_write", "no_lost_update"])
def test_a_store_that_does_not_look_at_the_fence(monkeypatch: Patch, checker: str) -> None:
    always: Callable[..., bool] = lambda *arguments: True  # noqa: E731
    monkeypatch.setattr(GuardedCounters, "admit", always)
    caught_by({checker})


# --- what observers hear


def test_a_loss_that_no_observer_hears_of(monkeypatch: Patch) -> None:
    def ended(self: Sighting, claim: Claim) -> None:
        if claim.reason != EXPIRED:
            before(self, claim)

    before = Sighting.ended
    monkeypatch.setattr(Sighting, "ended", ended)
    caught_by({"events_are_true"})


def test_a_grant_that_observers_hear_of_twice(monkeypatch: Patch) -> None:
    def granted(self: Sighting, claim: Claim, now: float) -> None:
        before(self, claim, now)
        if claim.abandoned:
            before(self, claim, now)

    before = Sighting.granted
    monkeypatch.setattr(Sighting, "granted", granted)
    caught_by({"events_are_true"})


def test_a_cancelled_caller_that_observers_wait_for(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Sighting, "cut_short", lambda self, claim, error: None)
    caught_by({"events_are_true"})
