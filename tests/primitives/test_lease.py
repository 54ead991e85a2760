"""What a holder asks its lease before the next step."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.core.errors import EngineError, LeaseLost
from fencelock.core.lease import LeaseState
from fencelock.primitives.lease import TOO_SHORT
from tests.cutting_short import InterruptAt
from tests.observe.recorder import Recorder
from tests.torture.stage import Stage
from tests.waiting import PATIENCE, eventually


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


# --- detach and attach


def test_a_detached_lease_is_no_leak(recwarn: pytest.WarningsRecorder) -> None:
    url = f"memory://{uuid4().hex}"
    with fencelock.Client(url) as client, fencelock.Client(url) as other:
        id = client.lock("a").acquire().detach()
        gc.collect()
        assert client._context.idle, "nothing is renewed here"
        with other.attach("a", id):
            assert other.names() == ["a"]
        assert not other.names(), "the end of the block released it"
    assert not recwarn.list


def test_a_client_that_closes_leaves_what_it_detached() -> None:
    url = f"memory://{uuid4().hex}"
    with fencelock.Client(url) as other:
        with fencelock.Client(url) as client, client.lock("a") as lease:
            id = lease.detach()
        other.attach("a", id).release()


def test_attached_with_options_of_its_own() -> None:
    url = f"memory://{uuid4().hex}"
    told: list[fencelock.Lease] = []
    heard = Recorder()
    with (
        fencelock.Client(url, observers=[heard]) as client,
        fencelock.Client(url, observers=[heard]) as other,
    ):
        id = client.lock("a").acquire().detach()
        lease = other.attach("a", id, ttl=5, max_hold=0.1, on_lost=told.append)
        assert lease.ttl == 5
        assert lease.lost.wait(PATIENCE)
        eventually(lambda: told == [lease], "the callback")
        eventually(lambda: not other.names(), "the end of it")
        for wrong in ("timeout", "guard", "reentrant"):
            with pytest.raises(TypeError, match="no option"):
                other.attach("a", id, **{wrong: None})  # type: ignore[arg-type]
    assert heard.words() == ["Asked", "Granted", "Released", "Asked", "Granted", "Lost"]
    assert not heard.oddities()


def test_the_same_client_attaches_only_what_it_has_let_go() -> None:
    with fencelock.Client("memory://") as client:
        lease = client.lock("a").acquire()
        with pytest.raises(fencelock.FencelockError, match="renews that lease on 'a' already"):
            client.attach("a", lease.id)
        assert client._context.every() == [lease._claim], "that one is still renewed"
        again = client.attach("a", lease.detach())
        assert again.fence == lease.fence
        again.release()


@pytest.mark.parametrize(
    ("wrong", "kind"), [("", ValueError), ("Z" * 32, ValueError), (7, TypeError), (b"0", TypeError)]
)
def test_what_is_no_id(client: fencelock.Client, wrong: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="an id"):
        client.attach("a", wrong)


def test_what_cannot_be_detached(client: fencelock.Client) -> None:
    lock = client.lock("a", reentrant=True)
    with lock as outer, lock, pytest.raises(fencelock.FencelockError, match="entered again"):
        outer.detach()
    term = client.election("b", "me").campaign()
    with pytest.raises(fencelock.Unsupported, match="let the other process campaign"):
        term.detach()
    term.release()
    lost = client.lock("c").acquire()
    client.break_lock("c")
    with pytest.raises(LeaseLost, match="is lost"):
        lost.detach()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a lease may be dropped on its way out
def test_an_attach_that_is_interrupted_takes_nothing_away() -> None:
    """The lease is another process's as long as the caller does not have it."""
    url = f"memory://{uuid4().hex}"
    with fencelock.Client(url) as client, fencelock.Client(url) as other:
        lease = client.lock("a").acquire()

        def attach() -> None:
            other.attach("a", lease.id).detach()

        for k in count():
            interrupt = InterruptAt(k)
            interrupt(attach)
            lease.confirm()
            eventually(lambda: other._context.idle, f"nothing to be renewed after step {k}")
            if interrupt.where is None:
                break
        assert k > 30, "this was to be a long list of steps"
        lease.release()
