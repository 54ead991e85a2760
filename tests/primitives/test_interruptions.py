"""Signals at every step: nothing stays behind or hangs, wherever a blocking program is interrupted."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from fencelock.client.options import PolicyName
from tests.cutting_short import InterruptAt
from tests.waiting import eventually


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    urls = {"memory": f"memory://{uuid4().hex}", "sqlite": f"sqlite:///{tmp_path}/locks.db"}
    return urls.get(request.param) or str(request.getfixturevalue("redis_url"))


def use(client: fencelock.Client, name: str) -> None:
    with client.lock(name, ttl=600):
        pass


def try_in_vain(client: fencelock.Client, name: str) -> None:
    assert client.lock(name, ttl=600).try_acquire() is None


def wait_in_vain(client: fencelock.Client, name: str) -> None:
    with pytest.raises(fencelock.LockTimeout):
        client.lock(name, ttl=600).acquire(timeout=0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a socket may be dropped between two steps
@pytest.mark.parametrize(
    ("operation", "held"), [(use, False), (try_in_vain, True), (wait_in_vain, True)]
)
def test_interrupted_at_every_step(url: str, operation: Any, held: bool) -> None:
    name = f"interrupted:{uuid4().hex}"
    with fencelock.Client(url) as other, fencelock.Client(url) as client:
        holder = other.lock(name).acquire() if held else None
        fences = [holder.fence] if holder else []
        client.names()  # connected: what is interrupted while connecting has sent nothing yet
        for k in count():
            interrupt = InterruptAt(k)
            interrupt(lambda: operation(client, name))

            def as_before() -> bool:
                seen = other.inspect(name)
                return [one.fence for one in seen.holders] == fences and not seen.waiting

            eventually(as_before, f"a clean queue after {interrupt.where}")
            eventually(lambda: client._context.idle, "nothing to be kept")
            if interrupt.where is None:
                break
        assert k > 30, "this was to be a long list of steps"
        if holder is None:
            use(client, name)  # and it still works


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("policy", ["wait-die", "wound-wait", "detect", "timeout"])
def test_a_transaction_that_waits_is_interrupted_at_every_step(policy: PolicyName) -> None:
    """Its policy has tickets of its own, for bells and signposts."""
    url = f"memory://{uuid4().hex}"
    with fencelock.Client(url) as other, fencelock.Client(url, ttl=2) as client:
        obstacle = other.lock("obstacle").acquire()

        def work() -> None:
            with (
                suppress(fencelock.LockTimeout, fencelock.LeaseLost, fencelock.DeadlockVictim),
                client.transaction(policy, timeout=0.01) as transaction,
            ):
                transaction.lock("mine")
                transaction.lock("obstacle")

        for k in count():
            interrupt = InterruptAt(k)
            interrupt(work)
            after = f"after {interrupt.where}"
            eventually(lambda: other.names() == ["obstacle"], f"nothing to be left {after}")
            eventually(lambda: not other.inspect("obstacle").waiting, f"nobody to wait {after}")
            eventually(lambda: client._context.idle, f"nothing to be kept {after}")
            if interrupt.where is None:
                break
        assert k > 30, "this was to be a long list of steps"
        obstacle.release()


@pytest.mark.parametrize(("operation", "held"), [(use, False), (wait_in_vain, True)])
def test_a_signal_handler_uses_the_client_at_every_step(
    url: str, operation: Any, held: bool
) -> None:
    """Where one thing has to end before another begins it is refused, but it does not wait for itself."""
    name = f"handled:{uuid4().hex}"
    with fencelock.Client(url) as other, fencelock.Client(url) as client:
        holder = other.lock(name).acquire() if held else None
        client.names()

        def handle() -> None:
            with suppress(fencelock.EngineError):
                use(client, f"{name}:too")

        for k in count():
            interrupt = InterruptAt(k, handle)
            interrupt(lambda: operation(client, name))
            # What a handler releases in the middle of something is forgotten a moment later.
            eventually(lambda: client._context.idle, f"nothing to be kept after {interrupt.where}")
            assert not other.inspect(f"{name}:too").holders
            if interrupt.where is None:
                break
        assert k > 30, "this was to be a long list of steps"
        if holder is not None:
            holder.release()


def test_a_finalizer_releases_a_lease_while_all_of_them_are_gone_through(url: str) -> None:
    """As when garbage is collected in the keeper's own thread: it is forgotten when that has ended."""
    with fencelock.Client(url) as client:
        leases = [client.lock(f"{number}:{uuid4().hex}", ttl=600).acquire() for number in range(3)]
        context, held = client._context, {lease.id: lease for lease in leases}
        with context._mutex:
            for these in (context._schedule.new, context._schedule.entries):
                for id in these:
                    held[id].release()
        eventually(lambda: context.idle, "all to be forgotten")


def test_a_with_block_may_be_left_in_another_thread(url: str) -> None:
    with fencelock.Client(url) as client:
        lock = client.lock(f"crossing:{uuid4().hex}")
        for enter, leave in ((lock.__enter__, lock.__exit__),) * 2:
            for act in (enter, lambda leave=leave: leave(None, None, None)):
                thread = threading.Thread(target=act)
                thread.start()
                thread.join()
            assert not client.inspect(lock.name).holders
        with pytest.raises(RuntimeError, match="never entered"):
            lock.__exit__(None, None, None)


def test_a_lock_ends_with_its_last_reference() -> None:
    """Not when garbage is collected, which may be never: it gives up what an interrupted block held."""
    with fencelock.Client(f"memory://{uuid4().hex}") as client:
        made: list[Callable[[], Any]] = [
            lambda: client.lock("x"),
            lambda: client.semaphore("x", 2),
            client.rwlock("x").read,
        ]
        for make in made:
            with (lock := make()):
                pass
            reference = weakref.ref(lock)
            del lock
            assert reference() is None
