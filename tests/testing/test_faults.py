"""Requests that fail when the test wants it: the client does what it does in an outage."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import fencelock
from fencelock import LeaseState, testing


@pytest.fixture
def client() -> Iterator[testing.Client]:
    with testing.Client(ttl=30) as client:
        yield client


@pytest.mark.parametrize("applied", [False, True])
def test_an_acquire_that_fails_leaves_nothing_behind(client: testing.Client, applied: bool) -> None:
    client.fail_next("enter", "unknown", applied=applied, times=2)
    with pytest.raises(fencelock.EngineError) as caught:
        client.lock("x").acquire()
    assert caught.value.outcome == "unknown"
    assert client.names() == []
    with client.lock("x"):
        pass


def test_a_request_that_was_not_applied(client: testing.Client) -> None:
    client.fail_next("enter", times=2)
    with pytest.raises(fencelock.EngineError) as caught:
        client.lock("x").acquire()
    assert caught.value.outcome == "not applied"


@pytest.mark.parametrize("applied", [False, True])
def test_one_failure_is_overcome_by_asking_again(client: testing.Client, applied: bool) -> None:
    client.fail_next("enter", "unknown", applied=applied)
    client.fail_next("leave", "unknown", applied=applied)
    with client.lock("x") as lease:
        assert client.inspect("x").fence == lease.fence
    assert client.names() == []


def test_a_lease_is_suspended_while_renewals_fail(client: testing.Client) -> None:
    lease = client.lock("x").acquire()

    def state_after(seconds: float) -> LeaseState:
        client.clock.advance(seconds)
        return lease.state

    client.fail_next("renew", "unknown", times=3)
    assert state_after(10.1) is LeaseState.SUSPENDED
    assert state_after(10) is LeaseState.HELD
    client.fail_next("renew", times=100)
    assert state_after(30) is LeaseState.LOST


@pytest.mark.parametrize(
    ("operation", "act"),
    [
        ("inspect", lambda client: client.inspect("x")),
        ("names", lambda client: client.names()),
        ("evict", lambda client: client.break_lock("x")),
        ("recall", lambda client: client.once("x", lambda: 1)),
    ],
)
def test_every_request_can_fail(
    client: testing.Client, operation: testing.Operation, act: object
) -> None:
    assert callable(act)
    client.fail_next(operation, "unknown")
    with pytest.raises(fencelock.EngineError, match=f"the test let this request fail: {operation}"):
        act(client)
    act(client)


def test_a_result_that_could_not_be_stored(client: testing.Client) -> None:
    runs: list[int] = []
    client.fail_next("remember", times=2)
    for _ in range(2):
        try:
            client.once("x", lambda: runs.append(1))
        except fencelock.EngineError:
            continue
    assert len(runs) == 2


def test_what_is_wrong_is_said(client: testing.Client) -> None:
    with pytest.raises(ValueError, match="no operation 'acquire': the operations are enter, renew"):
        client.fail_next("acquire")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be 'not applied' or 'unknown', not 'lost'"):
        client.fail_next("enter", "lost")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="can't have been applied"):
        client.fail_next("enter", "not applied", applied=True)
    with pytest.raises(ValueError, match="times must be a whole number, one or more, not 0"):
        client.fail_next("enter", times=0)
