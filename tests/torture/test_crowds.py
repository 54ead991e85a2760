"""Many leases of one client: renewed in full requests, evenly spread, and at nobody's expense."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from fencelock.primitives import schedule
from fencelock.primitives.lease import AsyncLease
from tests.torture.stage import Stage

BATCH = 10
MANY = 5 * BATCH
TTL = 30.0
INTERVAL = TTL * schedule.RENEW_AT


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(schedule, "_BATCH", BATCH)
    stage = Stage()
    yield stage
    stage.world.close()


def renewals(stage: Stage) -> list[float]:
    """When requests to renew were sent, from now on."""
    sent: list[float] = []

    def note(what: str) -> None:
        if what.startswith("renew"):
            sent.append(stage.now)

    stage.network.request = note
    return sent


def test_what_was_taken_in_one_burst_is_not_renewed_in_one_for_ever(stage: Stage) -> None:
    client, sent = stage.process("p"), renewals(stage)

    async def scene() -> list[AsyncLease]:
        locks = [stage.lock(client, "a", TTL, name=f"n{number}") for number in range(MANY)]
        leases = [await lock.acquire() for lock in locks]
        await client.io.sleep(6 * INTERVAL)
        return leases

    task = stage.start(client, scene())
    stage.run(6 * INTERVAL)
    later = [at for at in sent if at > 3 * INTERVAL]
    gaps = [after - before for before, after in pairwise(later)]
    assert min(gaps) > INTERVAL * BATCH / MANY / 2, "they still come in a burst"
    assert len(later) <= 3 * MANY / BATCH + 1, "no more requests than are needed"
    assert not task.done
    assert all(stage.seen(f"n{number}").holders for number in range(MANY))


def test_a_crowd_does_not_cost_a_lease_with_a_shorter_ttl(stage: Stage) -> None:
    client = stage.process("p")
    stage.network.reply = lambda what: 0.2 if what.startswith("renew") else None
    lost: list[AsyncLease] = []

    async def scene() -> None:
        for number in range(MANY):
            stage.leases.append(
                await stage.lock(client, "a", TTL, name=f"n{number}", on_lost=lost.append).acquire()
            )
        stage.leases.append(
            await stage.lock(client, "b", 1.0, name="short", on_lost=lost.append).acquire()
        )
        await client.io.sleep(3 * INTERVAL)

    stage.start(client, scene())
    stage.run(3 * INTERVAL)
    assert lost == []
    assert stage.seen("short").holders


def test_a_lease_about_to_end_does_not_cut_short_the_renewal_of_the_others(stage: Stage) -> None:
    client = stage.process("p")

    async def scene() -> None:
        leases = [await stage.lock(client, "a", TTL, name=name).acquire() for name in ("x", "y")]
        now = client.io.now()
        leases[0]._claim.deadline = now + 0.001
        found = client.context._schedule.survey(now)
        assert found.timeout >= 0.05, "an answer takes a while"
        assert found.pressing == [leases[0]._claim], "it is told of its end all the same"
        await leases[1].release()

    stage.start(client, scene())
    stage.run()


def test_a_lease_with_a_slow_answer_is_renewed_before_later_ones(stage: Stage) -> None:
    """While the keeper sleeps, answers come in another order than their requests were sent."""
    client = stage.process("p")
    stage.network.reply = lambda what: 0.8 if what == "enter slow" else None
    lost: list[AsyncLease] = []

    async def hold(label: str, ttl: float) -> None:
        stage.leases.append(
            await stage.lock(client, label, ttl, name=label, on_lost=lost.append).acquire()
        )
        await client.io.sleep(2 * INTERVAL)

    stage.start(client, hold("long", TTL))  # the keeper sleeps until this is due
    stage.at(INTERVAL - 0.9, lambda: stage.start(client, hold("slow", 1.0)))
    stage.at(INTERVAL - 0.2, lambda: stage.start(client, hold("quick", 1.0)))
    stage.run(INTERVAL + 2)
    assert lost == []
    assert stage.seen("slow").holders


def test_a_renewal_by_hand_does_not_hold_up_other_leases(stage: Stage) -> None:
    client, sent = stage.process("p"), renewals(stage)
    stage.network.reply = lambda what: 0.9 if what == "renew a b" else None

    async def scene() -> None:
        locks = [stage.lock(client, label, 3.0, name=label) for label in "ab"]
        first, _ = [await lock.acquire() for lock in locks]
        await client.io.sleep(1.5 - stage.now)  # the keeper waits for an answer since about 1.0
        await first.renew()
        await client.io.sleep(2.0)

    stage.start(client, scene())
    stage.run(3.0)
    batch, own, following = sent[:3]
    assert own - batch > 0.4
    assert following - batch < 1.1, "the other one is due, as a third of its ttl has passed"
