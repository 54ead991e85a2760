"""The blocking testing client: a real client, whose time the test moves."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest

import fencelock
from fencelock import LeaseState, testing
from fencelock.client.options import PolicyName
from fencelock.primitives.claim import EXPIRED
from tests.io.test_fork import in_child
from tests.waiting import PATIENCE, eventually


@pytest.fixture
def client() -> Iterator[testing.Client]:
    with testing.Client() as client:
        yield client


class InThread:
    """A call in another thread."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.result: Any = None
        self._act = act
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._act()
        except Exception as error:
            self.result = error

    def join(self) -> Any:
        self._thread.join(PATIENCE)
        return self.result


def waiter(client: testing.Client, timeout: float | None = None) -> InThread:
    """A thread that waits for "x"."""
    thread = InThread(lambda: client.lock("x").acquire(timeout))
    eventually(lambda: client.inspect("x").waiting, "the waiter")
    return thread


def pay(client: fencelock.Client) -> int:
    """Code of a user."""
    with client.lock("order:42", ttl=30) as lease:
        return lease.fence


def test_it_is_a_client_like_any_other(client: testing.Client) -> None:
    assert pay(client) < pay(client)
    assert client.traits.guarantee == "correctness"
    assert testing.Client(ttl=5).lock("x").acquire().ttl == 5


def test_its_names_can_have_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCELOCK_URL", "nonsense://")  # it is not asked
    with testing.Client(namespace="shop") as client, client.lock("x") as lease:
        assert lease.name == "shop/x"
        client.clock.advance(100)


def test_no_other_client_sees_its_locks(client: testing.Client) -> None:
    lease = client.lock("x").acquire()
    assert testing.Client().lock("x").try_acquire()
    assert client.lock("x").try_acquire() is None
    lease.release()


def test_time_passes_only_when_the_test_says_so(client: testing.Client) -> None:
    lease = client.lock("x", ttl=30).acquire()
    left, now = lease.remaining(), client.clock.now()
    assert (lease.remaining(), client.clock.now()) == (left, now)
    client.clock.advance(9)
    assert lease.remaining() == pytest.approx(left - 9)
    assert client.clock.now() == now + 9
    client.clock.advance(86_400)
    assert lease.state is LeaseState.HELD, "it was renewed all the time"
    assert client.clock.now() == now + 86_409
    lease.release()


def test_a_lease_with_a_bounded_life_ends_by_the_clock(client: testing.Client) -> None:
    fixed = client.lock("fixed", ttl=30, renew=False).acquire()
    longest = client.lock("longest", ttl=30, max_hold=60).acquire()

    def states_after(seconds: float) -> tuple[LeaseState, LeaseState]:
        client.clock.advance(seconds)
        return fixed.state, longest.state

    assert states_after(29) == (LeaseState.HELD, LeaseState.HELD)
    assert states_after(1) == (LeaseState.LOST, LeaseState.HELD)
    assert states_after(30) == (LeaseState.LOST, LeaseState.LOST)
    with client.caller("B"):
        assert client.lock("fixed").try_acquire()
        assert client.lock("longest").acquire(timeout=30)


def test_a_contender_in_the_same_thread_times_out_at_once(client: testing.Client) -> None:
    with client.lock("x", label="holder"):
        started = client.clock.now()
        with client.caller("contender"):
            assert client.lock("x").try_acquire() is None
            with pytest.raises(
                fencelock.LockTimeout, match=r"within 600 s: held by holder .* for 600"
            ):
                client.lock("x").acquire(timeout=600)
        assert client.clock.now() == started + 600


def test_each_caller_is_a_caller_of_its_own(client: testing.Client) -> None:
    with client.lock("x"), pytest.raises(fencelock.WouldDeadlock):
        client.lock("x").acquire(timeout=5)
    with client.caller("A"):
        lease = client.lock("x").acquire()
    with client.caller("A"), pytest.raises(fencelock.WouldDeadlock):
        client.lock("x").acquire(timeout=5)
    with client.caller("B"), client.caller("A"), client.lock("x", reentrant=True):
        assert client.inspect("x").holders[0].fence == lease.fence
    lease.release()


def test_an_expired_lease_goes_to_the_next(client: testing.Client) -> None:
    lost: list[fencelock.Lease] = []
    lease = client.lock("x", ttl=30, on_lost=lost.append).acquire()
    other = client.lock("y", ttl=10).acquire()
    started = client.clock.now()
    waiting = waiter(client)
    client.expire(lease)
    heir = waiting.join()
    assert (lost, client.clock.now()) == ([lease], started + 30)
    assert heir.abandoned
    assert heir.fence > lease.fence
    assert other.state is LeaseState.HELD
    with pytest.raises(fencelock.LeaseLost) as caught:
        lease.release()
    assert caught.value.reason == EXPIRED
    client.expire(heir)
    assert client.lock("x").try_acquire()


def test_a_lease_is_lost_for_any_reason(client: testing.Client) -> None:
    now = client.clock.now()
    lease = client.lock("x").acquire()
    client.lose(lease, "the network was cut")
    assert lease.lost
    with pytest.raises(fencelock.LeaseLost, match="is lost: the network was cut") as caught:
        lease.check()
    assert caught.value.reason == "the network was cut"
    heir = client.lock("x").try_acquire()
    assert heir is not None
    client.lose(heir)
    with pytest.raises(fencelock.LeaseLost, match="was broken"):
        heir.check()
    assert client.clock.now() == now


def test_a_waiting_thread_goes_on_when_the_lock_is_released(client: testing.Client) -> None:
    lease = client.lock("x").acquire()
    waiting = waiter(client)
    client.clock.advance(3600)  # the waiter's place in the queue is kept, too
    assert waiting.result is None
    lease.release()
    assert waiting.join().fence > lease.fence


def test_a_waiting_thread_times_out_when_the_clock_moves(client: testing.Client) -> None:
    with client.lock("x"):
        waiting = waiter(client, timeout=5)
        client.clock.advance(5)
        assert isinstance(waiting.join(), fencelock.LockTimeout)
        assert not client.inspect("x").waiting


def test_waiting_for_a_loss_moves_the_clock(client: testing.Client) -> None:
    lease = client.lock("x").acquire()
    started = client.clock.now()
    assert not lease.lost.wait(100)
    assert client.clock.now() == started + 100
    with pytest.raises(AssertionError, match="this wait would never end"):
        lease.lost.wait()
    client.fail_next("renew", times=100)
    assert lease.lost.wait()


def test_a_wait_that_can_t_end_is_an_error(client: testing.Client) -> None:
    with client.lock("x"):
        with client.caller("B"), pytest.raises(AssertionError, match="waiting for 'x' would never"):
            client.lock("x").acquire()
        assert not client.inspect("x").waiting


def test_everything_a_client_makes_keeps_its_time(client: testing.Client) -> None:
    rate = client.rate("api", 2, per=60)
    started = client.clock.now()
    for _ in range(5):
        rate.acquire()
    assert client.clock.now() == started + 120
    with client.rwlock("r").read(), client.caller("B"):
        assert client.rwlock("r").write().try_acquire() is None
    with client.semaphore("s", 1), client.caller("B"), pytest.raises(fencelock.LockTimeout):
        client.semaphore("s", 1).acquire(timeout=1)
    with client.lock_all(["a", "b"]), client.caller("B"), pytest.raises(fencelock.LockTimeout):
        client.lock_all(["b", "c"]).acquire(timeout=1)
    term = client.election("e", "first").campaign()
    with client.caller("B"), pytest.raises(fencelock.LockTimeout):
        client.election("e", "second").campaign(timeout=1)
    client.expire(term)
    assert client.election("e", "second").campaign(timeout=0).fence > term.fence
    for policy in get_args(PolicyName):
        with client.lock("b"), client.caller("B"), pytest.raises(fencelock.LockTimeout):
            client.transaction(policy, timeout=20).run(lambda held: held.lock("b"))
        assert client.transaction(policy).run(lambda held: held.lock("b")) is not None
    assert client.once("o", lambda: 1, keep=60) == client.once("o", lambda: 2, keep=60) == 1
    client.clock.advance(61)
    assert client.once("o", lambda: 3, keep=60) == 3


def test_what_is_wrong_is_said(client: testing.Client) -> None:
    with testing.Client() as other, other.lock("x") as foreign:
        with pytest.raises(ValueError, match="'x' is not one of this client"):
            client.expire(foreign)
        with pytest.raises(ValueError, match="'x' is not one of this client"):
            client.lose(foreign)
    lease = client.lock("y").acquire()
    with pytest.raises(ValueError, match="can't be lost for the reason 'released'"):
        client.lose(lease, "released")
    lease.release()
    with pytest.raises(ValueError, match="'y' is released already"):
        client.expire(lease)
    with pytest.raises(TypeError, match="takes a lease, not Lock"):
        client.expire(client.lock("y"))  # type: ignore[arg-type]
    for seconds in (-1, 0, float("inf")):
        with pytest.raises(ValueError, match="the time to advance must be more than zero"):
            client.clock.advance(seconds)
    with pytest.raises(ValueError, match="a caller needs a name"), client.caller(""):
        pass
    with pytest.raises(TypeError, match="unexpected keyword argument 'url'"):
        testing.Client(url="redis://localhost")  # type: ignore[call-arg]


def test_a_callback_can_t_move_the_clock_that_calls_it(
    client: testing.Client, caplog: pytest.LogCaptureFixture
) -> None:
    lease = client.lock("x", on_lost=lambda _: client.clock.advance(1)).acquire()
    client.expire(lease)
    assert "a callback that it calls can't advance it too" in caplog.text


def test_a_forked_child_is_refused(client: testing.Client) -> None:
    with client.lock("x"):
        said = in_child(lambda: str(client.lock("x").try_acquire()))
    assert "a testing client stays in its process" in said
    assert "sqlite:// with a file in tmp_path" in said


def test_it_leaves_nothing_behind_that_python_complains_about(
    recwarn: pytest.WarningsRecorder,
) -> None:
    lease = testing.Client().lock("x").acquire()
    lease._hand_over()  # only the warning about the lease itself would be deserved
    del lease
    gc.collect()
    assert not recwarn.list
