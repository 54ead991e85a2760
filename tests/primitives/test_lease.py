"""What a holder asks its lease before the next step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

import fencelock
from fencelock.core.errors import EngineError, LeaseLost
from fencelock.core.lease import LeaseState
from fencelock.primitives.lease import TOO_SHORT
from tests.torture.stage import Stage


@pytest.fixture
def client() -> Iterator[fencelock.Client]:
    with fencelock.Client("memory://") as client:
        yield client


def test_enough_is_left_for_the_next_step(client: fencelock.Client) -> None:
    with client.lock("a", max_hold=20) as lease:
        lease.check(at_least=10)
        lease.check(timedelta(seconds=10))
        with pytest.raises(
            LeaseLost, match=r"another .* s, and the next step needs 25 s"
        ) as caught:
            lease.check(at_least=25)
        assert caught.value.reason == TOO_SHORT
        assert lease.state is LeaseState.HELD, "it is not lost for that"
        lease.check()


def test_a_step_that_is_longer_than_any_renewal(client: fencelock.Client) -> None:
    with client.lock("a", ttl=5) as lease:
        with pytest.raises(ValueError, match=r"never has more than 4\.95 s left: use a longer ttl"):
            lease.check(at_least=5)
        lease.renew(ttl=30)
        lease.check(at_least=5)


def test_at_least_must_make_sense(client: fencelock.Client) -> None:
    with client.lock("a") as lease:
        with pytest.raises(ValueError, match="at_least must be more than zero"):
            lease.check(at_least=-1)
        with pytest.raises(TypeError, match="at_least must be"):
            lease.check(at_least="2 s")  # type: ignore[arg-type]


def test_several_leases_have_enough_left(client: fencelock.Client) -> None:
    with client.lock_all(["a", "b"], max_hold=20) as leases:
        leases.check(at_least=10)
        with pytest.raises(LeaseLost, match="next step"):
            leases.check(at_least=25)


def test_a_lease_that_is_lost_says_that_first(client: fencelock.Client) -> None:
    lease = client.lock("a").acquire()
    client.break_lock("a")
    with pytest.raises(LeaseLost, match="is lost"):
        lease.check(at_least=1)


def test_a_lease_that_nobody_can_confirm_is_not_lost_for_that() -> None:
    stage = Stage()
    client = stage.process("p")

    async def scene() -> None:
        lease = await stage.lock(client, "a", 30.0).acquire()
        stage.network.cut_off.add("p")
        with pytest.raises(EngineError) as caught:
            await lease.confirm()
        assert caught.value.outcome == "unknown"
        assert lease.state is LeaseState.HELD
        stage.network.cut_off.clear()
        before = lease.remaining()
        await lease.confirm()
        assert lease.remaining() > before, "to confirm is to renew"
        await lease.release()

    task = stage.start(client, scene())
    stage.run()
    stage.world.close()
    assert task.error is None, task.error
