"""The gate: in the memory of a follower, older leaders are refused."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fencelock
from fencelock import StaleFence, observe
from fencelock.guards import AsyncGate, Gate
from fencelock.guards.lease_like import RemoteLease, holder_of_id
from tests.guards.lease_likes import FIRST, LeaseLike
from tests.observe.recorder import Recorder


def test_newer_holders_and_the_same_one_again() -> None:
    gate = Gate()
    assert gate.newest(FIRST.name) == 0
    for stamp in (FIRST, FIRST, FIRST.newer(), FIRST.newer()):
        gate.check(stamp)
        assert gate.newest(FIRST.name) == stamp.fence


@pytest.mark.parametrize("stale", [FIRST, FIRST.newer().rival()], ids=["older", "same fence"])
def test_a_stale_holder_is_refused(stale: LeaseLike) -> None:
    gate, written = Gate(), list[object]()
    gate.check(FIRST.newer())
    with pytest.raises(StaleFence) as caught:
        gate.check(stale)
    error = caught.value
    assert (error.name, error.given, error.newest) == (FIRST.name, stale.fence, FIRST.fence + 1)
    with pytest.raises(StaleFence), gate.writing(stale):
        written.append(stale)
    assert not written
    with gate.writing(FIRST.newer()):
        written.append("good")
    assert written == ["good"]


def test_what_a_message_says_of_a_leader() -> None:
    gate = Gate()
    gate.check(("scheduler", 7))
    gate.check(("scheduler", 7, "id"))  # now the holder is known, too
    gate.check(RemoteLease("scheduler", 7, holder_of_id("id")))
    gate.check(("scheduler", 7))
    for stale in (("scheduler", 7, "another id"), ("scheduler", 6), ("scheduler", 6, "id")):
        with pytest.raises(StaleFence, match="was refused"):
            gate.check(stale)
    gate.check(("scheduler", 8))
    gate.check(("other", 1))


@pytest.mark.parametrize("wrong", [("scheduler", "7"), ("scheduler", 7.0), (7, 7), ("x", True)])
def test_what_is_no_fence(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a gate compares"):
        Gate().check(wrong)


@pytest.mark.parametrize("wrong", [("scheduler",), ["scheduler", 7], "scheduler", None])
def test_what_is_no_lease(wrong: Any) -> None:
    with pytest.raises(TypeError, match="a lease, a term, or a tuple of name, fence"):
        Gate().check(wrong)


def test_leases_and_terms() -> None:
    gate = Gate()
    with fencelock.Client("memory://") as client:
        with client.election("scheduler") as old:
            gate.check(old)
        with client.election("scheduler") as new:
            gate.check(new)
        with client.lock("order:42", guard=gate) as lease:
            assert gate.newest("order:42") == lease.fence
    heard = Recorder()
    observe.add(heard)
    try:
        for stale in (old, ("scheduler", old.fence)):
            with pytest.raises(StaleFence):
                gate.check(stale)
    finally:
        observe.remove(heard)
    assert [(event.guard, event.given) for event in heard.heard(observe.StaleFence)] == [
        ("gate", old.fence)
    ] * 2


async def test_in_asyncio() -> None:
    gate = AsyncGate()
    async with fencelock.AsyncClient("memory://") as client:
        async with client.lock("order:42", guard=gate) as lease:
            with gate.writing(lease):
                pass
        with pytest.raises(TypeError, match="not for AsyncClient"):
            client.lock("order:42", guard=Gate())  # type: ignore[arg-type]
    with pytest.raises(StaleFence):
        gate.check(("order:42", lease.fence - 1))


def test_memory_is_bounded() -> None:
    gate = Gate(size=3)
    for number in range(5):
        gate.check(("first", 9))  # seen again and again, so it is never the oldest
        gate.check((str(number), 1))
    assert len(gate) == 3
    with pytest.raises(StaleFence):
        gate.check(("first", 8))
    gate.check(("0", 0))  # forgotten
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="size must be"):
            Gate(size=wrong)  # type: ignore[arg-type]


def test_no_newer_holder_comes_between_a_check_and_its_write() -> None:
    gate, written = Gate(), list[object]()

    def newer() -> None:
        with gate.writing(("x", 2)):
            written.append(2)

    thread = threading.Thread(target=newer)
    with gate.writing(("x", 1)):
        thread.start()
        thread.join(0.1)  # it would have had the time to write
        written.append(1)
        gate.check(("x", 1))  # the same thread may look again
    thread.join()
    assert written == [1, 2]
