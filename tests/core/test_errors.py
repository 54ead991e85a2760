"""The tree of errors: what a program can tell apart, and that each survives a trip to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from fencelock.core.errors import (
    EngineError,
    FencelockError,
    LeaseLost,
    LockTimeout,
    StaleFence,
    UnsafeEngine,
    Unsupported,
    WouldDeadlock,
)

ALL = [
    FencelockError("message", name="n"),
    LockTimeout("message", name="n"),
    LeaseLost("message", name="n", reason="why"),
    WouldDeadlock("message", name="n"),
    Unsupported("message"),
    UnsafeEngine("message"),
    EngineError("message", outcome="unknown", name="n"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_all_are_fencelock_errors(error: FencelockError) -> None:
    assert isinstance(error, FencelockError)
    assert str(error) == "message"


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("trip", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_trip(error: FencelockError, trip: object) -> None:
    arrived = trip(error)  # type: ignore[operator]
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


def test_a_stale_fence_says_what_the_storage_has_seen() -> None:
    error = StaleFence("order:42", given=33, newest=34)
    arrived = pickle.loads(pickle.dumps(error))
    assert (arrived.name, arrived.given, arrived.newest) == ("order:42", 33, 34)
    assert str(arrived) == str(error)
    assert "33 was refused" in str(error)


def test_held_by_someone_else_and_engine_down_never_look_alike() -> None:
    assert not issubclass(LockTimeout, EngineError)
    assert not issubclass(EngineError, LockTimeout | TimeoutError)


def test_a_lock_timeout_is_a_timeout() -> None:
    assert issubclass(LockTimeout, TimeoutError)
