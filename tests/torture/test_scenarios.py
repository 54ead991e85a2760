"""What the simulation has found, each told again as a small story of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from fencelock.core.errors import EngineError, FencelockError, LeaseLost, LockTimeout
from fencelock.core.lease import LeaseState
from fencelock.core.ticket import Ticket
from fencelock.io.simulated import Cancelled
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from tests.torture.stage import NAME, Fate, Stage

LOST = math.inf
PROMPT = 0.01


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.world.close()


def when(beginning: str, fate: float) -> Fate:
    return lambda what: fate if what.startswith(beginning) else None


class Told:
    """When a lease was told that it is lost."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.at = math.inf

    def __call__(self, lease: AsyncLease) -> None:
        self.at = self._stage.now


# --- the deadline


def test_a_loss_is_told_in_time_although_the_engine_hangs(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)

    async def scene() -> float:
        lease = await stage.lock(client, "a", 0.5, on_lost=told).acquire()
        await client.io.sleep(2.0)
        stage.network.request = when("", LOST)
        await client.io.sleep(0.02)  # what was under way has arrived
        end = stage.now + lease.remaining()
        await client.io.sleep(5.0)
        with pytest.raises(LeaseLost):
            lease.check()
        return end

    task = stage.start(client, scene())
    stage.run()
    assert told.at >= 2.0
    assert told.at == pytest.approx(task.result, abs=PROMPT)


def test_a_clean_up_that_hangs_neither_costs_a_lease_nor_delays_the_news(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)
    stage.network.request = when("leave gone", LOST)

    async def give_up() -> None:
        stage.leases.append(await stage.lock(client, "gone", 5.0, name="other").acquire())

    async def scene() -> float:
        await client.io.sleep(0.1)
        lease = await stage.lock(client, "a", 0.5, on_lost=told).acquire()
        await client.io.sleep(4.0)
        assert lease.state is LeaseState.HELD
        stage.network.cut_off.add("p")
        await client.io.sleep(0.02)
        end = stage.now + lease.remaining()
        await client.io.sleep(5.0)
        return end

    stage.start(client, give_up()).cancel_at_await(2)
    task = stage.start(client, scene())
    stage.run()
    assert task.error is None
    assert told.at == pytest.approx(task.result, abs=PROMPT)


def test_a_renewal_that_hangs_does_not_cost_another_lease(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)
    stage.network.request = lambda what: (
        LOST if what.startswith("renew") and "long" in what else None
    )

    async def scene() -> None:
        long = await stage.lock(client, "long", 5.0, name="other").acquire()
        await client.io.sleep(1.5)
        short = await stage.lock(client, "short", 0.5, on_lost=told).acquire()
        await client.io.sleep(3.0)
        short.check()
        await short.release()
        assert long.state is LeaseState.SUSPENDED
        stage.network.request = when("", 0.0)
        await client.io.sleep(1.0)
        await long.release()

    task = stage.start(client, scene())
    stage.run()
    assert task.error is None
    assert told.at == math.inf
    assert stage.nothing_left()


def test_a_lease_that_came_while_the_keeper_hung_is_told_its_end_in_time(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)

    async def scene() -> float:
        stage.leases.append(await stage.lock(client, "long", 5.0, name="other").acquire())
        stage.network.request = when("renew", LOST)
        await client.io.sleep(1.7)  # its renewal hangs from here on, for 1.67 seconds
        lease = await stage.lock(client, "short", 0.5, on_lost=told).acquire()
        end = stage.now + lease.remaining()
        await client.io.sleep(2.0)
        return end

    task = stage.start(client, scene())
    stage.run(until=5.0)
    assert told.at == pytest.approx(task.result, abs=PROMPT)


def test_a_lease_is_told_its_end_in_time_also_after_it_was_renewed_by_hand(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)

    async def scene() -> float:
        stage.leases.append(await stage.lock(client, "long", 5.0, name="other").acquire())
        stage.network.request = when("renew long", LOST)
        await client.io.sleep(1.7)
        lease = await stage.lock(client, "short", 0.5, on_lost=told).acquire()
        await client.io.sleep(0.3)
        await lease.renew()
        end = stage.now + lease.remaining()
        stage.network.request = when("renew", LOST)
        await client.io.sleep(2.0)
        return end

    task = stage.start(client, scene())
    stage.run(until=5.0)
    assert told.at == pytest.approx(task.result, abs=PROMPT)


def test_a_lease_that_was_pushed_late_is_renewed_at_once(stage: Stage) -> None:
    holder, waiter, told = stage.process("holder"), stage.process("waiter"), Told(stage)

    async def hold() -> None:
        lease = await stage.lock(holder, "a", 5.0).acquire()
        await holder.io.sleep(0.7)  # after its first renewal gave up, before the next
        await lease.release()

    async def scene() -> None:
        await waiter.io.sleep(0.01)
        lease = await stage.lock(waiter, "b", 1.0, on_lost=told).acquire()
        assert lease.remaining() < 0.33, "the engine last heard of it long ago"
        stage.network.request = when("", 0.0)
        await waiter.io.sleep(1.0)
        lease.check()
        await lease.release()

    stage.network.request = when("renew b", LOST)
    stage.start(holder, hold())
    task = stage.start(waiter, scene())
    stage.run()
    assert task.error is None
    assert told.at == math.inf


def test_a_shorter_ttl_counts_before_it_is_confirmed(stage: Stage) -> None:
    client = stage.process("p")

    async def scene() -> None:
        lease = await stage.lock(client, "a", 30.0).acquire()
        stage.network.reply = when("renew", LOST)
        with pytest.raises(EngineError):
            await lease.renew(ttl=5.0)
        assert lease.remaining() < 3.0, "the engine may have heard of it"
        await lease.release()

    task = stage.start(client, scene())
    stage.run()
    assert task.error is None


def test_renewing_by_hand_past_the_deadline_is_too_late(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)

    async def scene() -> float:
        lease = await stage.lock(client, "a", 0.5, on_lost=told).acquire()
        end = stage.now + lease.remaining()
        stage.network.request = when("renew", LOST)
        stage.network.reply = when("renew", 1.0)
        with pytest.raises((EngineError, LeaseLost)):
            await lease.renew()
        return end

    task = stage.start(client, scene())
    stage.run()
    assert told.at == pytest.approx(task.result, abs=PROMPT)


# --- what arrives late, or twice


def test_a_request_that_arrives_after_its_clean_up_is_cleaned_up_again(stage: Stage) -> None:
    client = stage.process("p")
    stage.network.request = when("enter a", 0.2)

    async def scene() -> None:
        stage.leases.append(await stage.lock(client, "a", 5.0).acquire())

    task = stage.start(client, scene())
    stage.at(0.1, task.cancel)
    stage.run(until=0.3)
    assert isinstance(task.error, Cancelled)
    stage.run(until=2.0)
    assert not stage.seen().holders
    stage.run()
    assert stage.nothing_left()


def test_a_refused_attempt_whose_first_request_comes_late_holds_nothing(stage: Stage) -> None:
    holder, other = stage.process("holder"), stage.process("other")
    late = iter([3.0])
    stage.network.request = lambda what: next(late, None) if what.startswith("enter b") else None

    async def hold() -> None:
        lease = await stage.lock(holder, "a", 5.0).acquire()
        await holder.io.sleep(2.9)
        await lease.release()

    async def scene() -> AsyncLease | None:
        await other.io.sleep(0.01)
        return await stage.lock(other, "b", 5.0).try_acquire()

    stage.start(holder, hold())
    task = stage.start(other, scene())
    # Its connection breaks, so it asks again, and is refused. Only then does the first one arrive.
    stage.at(0.5, stage.network.break_connections)
    stage.run(until=5.0)
    assert task.error is not None or task.result is None
    assert not stage.seen().holders
    stage.run()
    assert stage.nothing_left()


def test_a_ticket_that_is_in_the_queue_again_is_not_the_old_one(stage: Stage) -> None:
    client, told = stage.process("p"), Told(stage)
    sent: list[Ticket] = []

    async def scene() -> None:
        lease = await stage.lock(client, "a", 1.0, on_lost=told).acquire()
        sent.append(lease._claim.ticket)
        await client.io.sleep(0.5)
        stage.server.evict(NAME)
        stage.server.enter(sent[0], False, client.io.event())  # a late copy of its first request
        fence = lease.fence
        await client.io.sleep(0.5)
        assert lease.state is LeaseState.LOST
        assert lease.fence == fence

    task = stage.start(client, scene())
    stage.run()
    assert task.error is None
    assert told.at < 0.9, "at the next renewal"
    assert stage.nothing_left()


def test_a_late_renewal_does_not_shorten_a_longer_lease(stage: Stage) -> None:
    client, next_one = stage.process("p"), stage.process("next")

    async def scene() -> float:
        lease = await stage.lock(client, "a", 1.0).acquire()
        short = lease._claim.ticket
        await lease.renew(ttl=5.0)
        stage.server.renew([short])
        stage.network.cut_off.add("p")
        end = stage.now + lease.remaining()
        await client.io.sleep(10.0)
        return end

    async def take_over() -> float:
        await next_one.io.sleep(0.1)
        lease = await stage.lock(next_one, "b", 1.0).acquire()
        got = stage.now
        await lease.release()
        return got

    believed, taken = stage.start(client, scene()), stage.start(next_one, take_over())
    stage.run()
    assert taken.result > believed.result


# --- pauses, and two at once


def test_a_process_that_sleeps_past_its_own_admission_asks_again(stage: Stage) -> None:
    client = stage.process("p")
    stage.network.reply = when("enter", 0.5)

    async def scene() -> None:
        lease = await stage.lock(client, "a", 1.0).acquire()
        lease.check()
        assert lease.fence == stage.seen().holders[0].fence
        await lease.release()

    task = stage.start(client, scene())
    for beginning in (0.4, 2.4, 4.4):
        stage.at(beginning, lambda: client.io.pause(1.5))
    stage.run()
    assert task.error is None
    assert stage.nothing_left()


def test_releasing_while_a_renewal_is_under_way_leaves_nothing(stage: Stage) -> None:
    client = stage.process("p")
    stage.network.reply = when("renew", 0.2)

    async def renew(lease: AsyncLease) -> None:
        with pytest.raises(LeaseLost):
            await lease.renew()

    async def scene() -> None:
        lease = await stage.lock(client, "a", 5.0).acquire()
        renewing = client.io.spawn(renew(lease), "renewing")
        await client.io.sleep(0.05)
        await lease.release()
        await renewing.join()

    task = stage.start(client, scene())
    stage.run()
    assert task.error is None
    assert stage.nothing_left()
    assert not stage.seen().holders


def test_closing_a_client_ends_its_waiters(stage: Stage) -> None:
    holder, client = stage.process("holder"), stage.process("p")

    async def hold() -> None:
        lease = await stage.lock(holder, "a", 5.0).acquire()
        await holder.io.sleep(0.5)
        await lease.release()

    async def wait() -> None:
        await client.io.sleep(0.01)
        with pytest.raises(FencelockError, match="closed"):
            stage.leases.append(await stage.lock(client, "b", 1.0).acquire())

    async def close() -> None:
        await client.io.sleep(0.2)
        await client.context.close()

    stage.start(holder, hold())
    waiting = stage.start(client, wait())
    stage.start(client, close())
    stage.run()
    assert waiting.error is None
    assert not stage.seen().holders


# --- how long one waits


@pytest.mark.parametrize("timeout", [None, 0.0, 0.5, 30.0])
def test_an_engine_that_hangs_is_reported_soon(stage: Stage, timeout: float | None) -> None:
    client = stage.process("p")
    stage.network.request = when("", LOST)

    async def scene() -> None:
        with pytest.raises(EngineError):
            stage.leases.append(await stage.lock(client, "a", 30.0, timeout=timeout).acquire())

    task = stage.start(client, scene())
    stage.run(until=(timeout or REQUEST_TIMEOUT if timeout != 30.0 else REQUEST_TIMEOUT) + 0.1)
    assert task.done
    assert task.error is None


def test_a_timeout_is_kept_although_the_engine_hangs_at_the_end(stage: Stage) -> None:
    holder, client = stage.process("holder"), stage.process("p")

    async def hold() -> None:
        stage.leases.append(await stage.lock(holder, "a", 30.0).acquire())

    async def wait() -> None:
        await client.io.sleep(0.01)
        with pytest.raises(LockTimeout):
            stage.leases.append(await stage.lock(client, "b", 30.0, timeout=1.0).acquire())

    stage.start(holder, hold())
    task = stage.start(client, wait())
    stage.at(0.5, lambda: stage.network.cut_off.add("p"))
    stage.run(until=1.0 + 0.6)
    assert task.done
    assert task.error is None


def test_a_release_does_not_hang_longer_than_one_request(stage: Stage) -> None:
    client = stage.process("p")

    async def scene() -> None:
        lease = await stage.lock(client, "a", 30.0).acquire()
        stage.network.request = when("leave", LOST)
        with pytest.raises(EngineError):
            await lease.release()

    task = stage.start(client, scene())
    stage.run(until=REQUEST_TIMEOUT + 0.1)
    assert task.done
    assert task.error is None
