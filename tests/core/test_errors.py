"""The tree of errors: what a program can tell apart, and that each survives a trip to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

import fencelock
from fencelock.core.errors import (
    DeadlockVictim,
    EngineError,
    FencelockError,
    LeaseLost,
    LockTimeout,
    QuorumLost,
    RanBefore,
    StaleFence,
    UnsafeEngine,
    Unsupported,
    WouldDeadlock,
)
from fencelock.core.ticket import Holder, Owner

ALL = [
    FencelockError("message", name="n"),
    LockTimeout("message", name="n", holder=Holder(Owner("here", 1), 7, 1.0, 2.0)),
    LeaseLost("message", name="n", reason="why"),
    DeadlockVictim("message", name="n", transaction="t", cycle=("t", "u")),
    RanBefore("message", name="n"),
    WouldDeadlock("message", name="n"),
    Unsupported("message", longest_ttl=40.0),
    UnsafeEngine("message"),
    EngineError("message", outcome="not applied", name="n"),
    QuorumLost("message", outcome="unknown", name="n"),
]
STALE = StaleFence("order:42", 33, 34)


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_all_are_fencelock_errors(error: FencelockError) -> None:
    assert isinstance(error, FencelockError)
    assert str(error) == "message"


def test_every_public_error_is_here() -> None:
    public = (getattr(fencelock, name) for name in fencelock.__all__)
    errors = {
        each for each in public if isinstance(each, type) and issubclass(each, FencelockError)
    }
    assert errors == {type(error) for error in [*ALL, STALE]}


@pytest.mark.parametrize("error", [*ALL, STALE], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("trip", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_an_error_survives_a_trip(error: FencelockError, trip: object) -> None:
    arrived = trip(error)  # type: ignore[operator]
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived) == vars(error)


@pytest.mark.parametrize("error", [*ALL, STALE], ids=lambda error: type(error).__name__)
def test_an_error_is_made_again_from_its_arguments(error: FencelockError) -> None:
    made = type(error)(*error.args)
    assert (type(made), str(made)) == (type(error), str(error))
    assert vars(made).keys() == vars(error).keys()


def test_a_stale_fence_says_what_the_storage_has_seen() -> None:
    for error in (STALE, type(STALE)(*STALE.args)):
        assert (error.name, error.given, error.newest) == ("order:42", 33, 34)
    assert "33 was refused" in str(error)


def test_held_by_someone_else_and_engine_down_never_look_alike() -> None:
    assert not issubclass(LockTimeout, EngineError)
    assert not issubclass(EngineError, LockTimeout | TimeoutError)


def test_a_lock_timeout_is_a_timeout() -> None:
    assert issubclass(LockTimeout, TimeoutError)
