"""`max_hold` and `renew=False`, to the millisecond: on a virtual clock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.core.durations import deadline
from fencelock.core.errors import LeaseLost
from fencelock.observe.events import Lost
from fencelock.primitives.claim import OVERHELD, RAN_OUT
from fencelock.primitives.lease import AsyncLease
from fencelock.torture.workers import SimulatedClient
from tests.observe.recorder import Recorder
from tests.torture.stage import NAME, Stage
from tests.waiting import PATIENCE, eventually

PROMPT = 0.01
TTL = 3.0


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    for client in stage.clients:
        assert client.io.crashed or client.context.idle, "nothing is kept of what has ended"
    stage.world.close()


class Scene:
    """A holder whose lease is bounded, and a waiter behind it. What happened to them, and when."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.holder, self.waiter = stage.process("holder"), stage.process("waiter")
        self.told_at = self.heir_at = 0.0
        self.reason = ""
        self.abandoned = False

    def told(self, lease: AsyncLease) -> None:
        assert not self.heir_at, "the holder is told first"
        self.told_at, self.reason = self.stage.now, lease._claim.reason or ""

    async def take(self, **options: Any) -> AsyncLease:
        lock = self.stage.lock(self.holder, "holder", TTL, on_lost=self.told, **options)
        lease = await lock.acquire()
        self.stage.leases.append(lease)
        return lease

    async def inherit(self) -> None:
        await self.waiter.io.sleep(0.1)
        async with self.stage.lock(self.waiter, "waiter", 60.0) as lease:
            self.heir_at, self.abandoned = self.stage.now, lease.abandoned

    def play(self, act: Any) -> None:
        main = self.stage.start(self.holder, act)
        heir = self.stage.start(self.waiter, self.inherit())
        self.stage.run()
        assert main.error is None, main.error
        assert heir.error is None, heir.error


# Shorter than a ttl, so that nothing is ever renewed; and longer, so that much is.
@pytest.mark.parametrize("max_hold", [0.5, 2.9, 20.0])
def test_a_lease_is_lost_after_max_hold_and_passed_on(stage: Stage, max_hold: float) -> None:
    scene = Scene(stage)

    async def hang() -> None:
        lease = await scene.take(max_hold=max_hold)
        since = stage.now
        await scene.holder.io.sleep(max_hold - 0.1)
        assert lease.remaining() <= 0.1, "the deadline is bounded, not only the renewals"
        await lease.renew()
        assert lease.remaining() <= 0.1, "and a renewal by hand does not change that"
        await scene.holder.io.sleep(0.1)
        with pytest.raises(LeaseLost, match="max_hold") as caught:
            lease.check()
        assert caught.value.reason == OVERHELD
        assert stage.now - since == pytest.approx(max_hold, abs=PROMPT)

    scene.play(hang())
    assert scene.told_at == pytest.approx(max_hold, abs=PROMPT)
    assert scene.heir_at == pytest.approx(scene.told_at, abs=PROMPT), "promptly, not after a ttl"
    assert scene.abandoned, "its work may be half done"
    assert scene.reason == OVERHELD


def test_a_holder_that_ends_in_time_notices_nothing(stage: Stage) -> None:
    scene = Scene(stage)

    async def work() -> None:
        async with await scene.take(max_hold=10.0):
            await scene.holder.io.sleep(9.0)

    scene.play(work())
    assert not scene.told_at
    assert not scene.abandoned


def test_the_end_of_max_hold_is_told_although_the_engine_hangs(stage: Stage) -> None:
    scene = Scene(stage)

    async def hang() -> None:
        await scene.take(max_hold=4.3)
        await scene.holder.io.sleep(3.5)
        stage.network.cut_off.add("holder")  # a renewal is sent at 4.0, into the void

    scene.play(hang())
    assert scene.told_at == pytest.approx(4.3, abs=PROMPT)


def test_a_fixed_ttl_is_never_renewed(stage: Stage) -> None:
    scene = Scene(stage)

    async def leave_alone() -> None:
        lease = await scene.take(renew=False)
        assert lease.remaining() == pytest.approx(deadline(0.0, TTL), abs=PROMPT)
        sent = len(stage.network.open_replies)
        await scene.holder.io.sleep(2.5)
        lease.check()
        assert len(stage.network.open_replies) == sent + 1, "the waiter alone has asked"

    scene.play(leave_alone())
    assert scene.told_at == pytest.approx(deadline(0.0, TTL), abs=PROMPT)
    assert scene.reason == RAN_OUT
    assert scene.heir_at <= TTL + PROMPT


def test_the_caller_may_renew_a_fixed_ttl(stage: Stage) -> None:
    scene = Scene(stage)

    async def renew_once() -> None:
        lease = await scene.take(renew=False)
        await scene.holder.io.sleep(2.0)
        await lease.renew()
        assert lease.remaining() == pytest.approx(deadline(0.0, TTL), abs=PROMPT)
        await scene.holder.io.sleep(2.0)
        await lease.renew(ttl=1.0)

    scene.play(renew_once())
    assert scene.told_at == pytest.approx(4.0 + deadline(0.0, 1.0), abs=PROMPT)


def test_a_fixed_ttl_begins_with_the_lease_and_not_with_the_waiting(stage: Stage) -> None:
    client, other = stage.process("p"), stage.process("q")

    async def be_ahead() -> None:
        async with stage.lock(other, "ahead", TTL):
            await other.io.sleep(9.8)

    async def wait() -> None:
        await client.io.sleep(0.1)
        lease = await stage.lock(client, "a", TTL, renew=False).acquire()
        await client.io.sleep(2.8)
        lease.check()
        await client.io.sleep(0.3)
        with pytest.raises(LeaseLost):
            lease.check()

    stage.start(other, be_ahead())
    task = stage.start(client, wait())
    stage.run()
    assert task.error is None, task.error


def test_max_hold_goes_on_after_a_ttl_was_shortened(stage: Stage) -> None:
    """A lease that was not to be renewed any more has to be, because it ends sooner now."""
    scene = Scene(stage)

    async def shorten() -> None:
        lease = await scene.take(max_hold=2.5)
        await lease.renew(ttl=1.0)

    scene.play(shorten())
    assert scene.told_at == pytest.approx(2.5, abs=PROMPT)
    assert scene.reason == OVERHELD


def test_a_ttl_that_changes_while_the_lease_is_released(stage: Stage) -> None:
    """The simulation found it: the claim came back into the schedule."""
    scene = Scene(stage)

    async def release_and_renew() -> None:
        lease = await scene.take(renew=False)
        stage.network.request = lambda what: 0.1 if what.startswith("leave") else None
        releasing = stage.start(scene.holder, lease.release())
        await scene.holder.io.sleep(0.01)  # the request is under way
        await lease.renew(ttl=1.0)
        await releasing.join()
        assert scene.holder.context.idle

    scene.play(release_and_renew())


def test_one_who_enters_again_changes_nothing(stage: Stage) -> None:
    scene = Scene(stage)

    async def twice() -> None:
        outer = await scene.take(max_hold=2.0)
        await scene.holder.io.sleep(1.0)
        inner = await stage.lock(scene.holder, "inner", TTL, reentrant=True, max_hold=2.0).acquire()
        assert inner.remaining() == outer.remaining() <= 1.0
        await inner.release()

    scene.play(twice())
    assert scene.told_at == pytest.approx(2.0, abs=PROMPT)


def test_many_that_end_at_once(stage: Stage) -> None:
    client = stage.process("p")
    told: list[str] = []

    async def take(client: SimulatedClient) -> None:
        for number in range(50):
            ttl = 1.0 + number % 3
            lock = stage.lock(
                client,
                str(number),
                ttl,
                name=f"{NAME}:{number}",
                on_lost=lambda lease: told.append(lease.name),
                **({"renew": False} if number % 2 else {"max_hold": ttl}),
            )
            stage.leases.append(await lock.acquire())
        await stage.leases[7].release()

    stage.start(client, take(client))
    stage.run()
    assert len(told) == 49


# --- what a caller may ask for


def test_wrong_bounds_are_refused() -> None:
    with fencelock.Client("memory://") as client:
        for wrong in (0, -1, float("inf"), float("nan")):
            with pytest.raises(ValueError, match="max_hold must be"):
                client.lock("a", max_hold=wrong)
        with pytest.raises(TypeError, match="max_hold must be"):
            client.lock("a", max_hold="60")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="renew must be True or False"):
            client.lock("a", renew=0)  # type: ignore[arg-type]


def test_no_expiry_no_fixed_ttl() -> None:
    with fencelock.Client("postgresql+advisory://localhost/nothing") as client:
        with pytest.raises(fencelock.Unsupported, match="use max_hold"):
            client.lock("a", renew=False)
        client.lock("a", max_hold=60)


# --- the other primitives that hold something


def bounded(client: fencelock.Client, name: str, **bounds: Any) -> list[Any]:
    """One of each."""
    return [
        client.rwlock(name, **bounds).read(),
        client.rwlock(name, **bounds).write(),
        client.semaphore(name, 2, weight=2, **bounds),
        client.lock_all([f"{name}:b", f"{name}:a"], **bounds),
        client.election(name, "me", **bounds),
    ]


@pytest.mark.parametrize("bounds", [{"max_hold": 0.1}, {"ttl": 0.1, "renew": False}])
def test_everything_that_is_held_can_be_bounded(bounds: dict[str, Any]) -> None:
    url = f"memory://{uuid4().hex}"
    with fencelock.Client(url, ttl=60) as client, fencelock.Client(url) as other:
        for held in bounded(client, "name", **bounds):
            with pytest.raises(fencelock.LeaseLost) as caught, held:
                eventually(lambda: not other.names("name*"), "the end of what is held")
            assert caught.value.reason in (OVERHELD, RAN_OUT)
        assert client._context.idle


def test_a_writer_that_turns_reader_keeps_its_bound() -> None:
    with fencelock.Client("memory://", ttl=60) as client:
        lease = client.rwlock("a", max_hold=0.2).write().acquire()
        lease.downgrade()
        assert lease.remaining() <= 0.2
        assert lease.lost.wait(PATIENCE)
        with pytest.raises(LeaseLost, match="max_hold"):
            lease.release()


def test_a_decorated_function_has_its_bound() -> None:
    with fencelock.Client("memory://") as client:

        @client.locked("a", max_hold=0.1)
        def work(lease: fencelock.Lease) -> None:
            assert lease.lost.wait(PATIENCE)

        with pytest.raises(LeaseLost, match="max_hold"):
            work()


def test_a_fixed_ttl_that_runs_out_is_no_accident(caplog: pytest.LogCaptureFixture) -> None:
    heard = Recorder()
    with fencelock.Client("memory://", observers=[heard]) as client:
        for lock in (client.lock("a", renew=False, ttl=0.5), client.lock("a", max_hold=0.1)):
            lease = lock.acquire()
            assert lease.lost.wait(PATIENCE)
            eventually(lambda: not client.names(), "the end of it")
    assert [lost.reason for lost in heard.heard(Lost)] == ["ran out", "held too long"]
    (warning,) = [record for record in caplog.records if record.name == "fencelock.lease"]
    assert "max_hold" in warning.getMessage()
    assert not heard.oddities()
