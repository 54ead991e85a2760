"""Times that callers may ask for, and what follows from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.durations import (
    DRIFT,
    MAX_TTL,
    MIN_TTL,
    check_keep,
    check_per,
    check_positive,
    check_timeout,
    check_ttl,
    deadline,
    seconds,
    suggest_ttl,
)

SECONDS = st.floats(0, 1e9)
TTLS = st.floats(MIN_TTL, MAX_TTL)


@pytest.mark.parametrize("ttl", [MIN_TTL, 1, 0.5, 30, MAX_TTL])
def test_good_ttls(ttl: float) -> None:
    checked = check_ttl(ttl)
    assert checked == ttl
    assert type(checked) is float


@pytest.mark.parametrize(
    "ttl",
    [0, 0.0, -0.0, -1, 0.0999, math.inf, -math.inf, math.nan, MAX_TTL + 1, 10**400, -(10**400)],
)
def test_bad_ttls(ttl: float) -> None:
    with pytest.raises(ValueError, match=r"ttl must be between 0\.1 and 2592000 seconds, not"):
        check_ttl(ttl)


@pytest.mark.parametrize("timeout", [0, 0.0, 1e-9, 0.5, 7, 1e12])
def test_good_timeouts(timeout: float) -> None:
    assert check_timeout(timeout) == timeout


def test_no_timeout_is_infinite() -> None:
    assert check_timeout(None) == math.inf


@pytest.mark.parametrize("timeout", [-1, -1e-9, math.inf, -math.inf, math.nan, 10**400])
def test_bad_timeouts(timeout: float) -> None:
    with pytest.raises(ValueError, match="0 does not wait, None waits for ever"):
        check_timeout(timeout)


@pytest.mark.parametrize("value", [True, "5", b"5", [5], 1j], ids=repr)
@pytest.mark.parametrize("check", [check_ttl, check_timeout])
def test_what_is_no_number(check: Any, value: Any) -> None:
    kind = type(value).__name__
    with pytest.raises(TypeError, match=f"a number of seconds or a timedelta, not {kind}"):
        check(value)


CHECKS: list[Callable[[Any], float]] = [
    check_ttl,
    check_timeout,
    check_per,
    lambda value: check_positive("it", value),
    lambda value: check_keep("it", value),
]


@pytest.mark.parametrize("check", CHECKS, ids=["ttl", "timeout", "per", "positive", "keep"])
def test_a_timedelta_is_its_seconds(check: Callable[[Any], float]) -> None:
    checked = check(timedelta(minutes=1, milliseconds=500))
    assert checked == 60.5
    assert type(checked) is float
    with pytest.raises(ValueError, match=r"not -1\.0"):
        check(timedelta(seconds=-1))


def test_a_ttl_must_be_given() -> None:
    with pytest.raises(TypeError, match=r"ttl must be a number of seconds or .* not NoneType"):
        check_ttl(None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("90", 90.0), ("1.5s", 1.5), ("200ms", 0.2), ("300us", 0.0003), ("300µs", 0.0003), ("15m", 900.0),
        ("2h", 7200.0), ("1d", 86400.0),
    ],
)  # fmt: skip
def test_durations_as_text(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "ms", "long", "5 apples", "5mm", "1h30m"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: give seconds, or for example 200ms"):
        seconds(text)


@given(SECONDS, TTLS)
def test_a_holder_stops_before_the_engine_does(sent: float, ttl: float) -> None:
    """However slow its clock is, within the drift, and however late the engine began to count."""
    slowest = 1 - DRIFT
    true_seconds = (deadline(sent, ttl) - sent) / slowest
    assert true_seconds < ttl


@given(SECONDS, TTLS)
def test_a_lease_is_worth_something(sent: float, ttl: float) -> None:
    assert deadline(sent, ttl) > sent + ttl * 0.9 - 0.01


@given(SECONDS, SECONDS, SECONDS)
def test_the_suggested_ttl_is_twice_the_sum(operation: float, latency: float, drift: float) -> None:
    assert suggest_ttl(operation, latency, drift) == pytest.approx(
        2 * (operation + latency + drift)
    )


@pytest.mark.parametrize("value", [-1, math.inf, math.nan])
@pytest.mark.parametrize("position", range(3))
def test_a_ttl_is_not_suggested_for_nonsense(value: float, position: int) -> None:
    arguments = [1.0, 1.0, 1.0]
    arguments[position] = value
    what = ("operation", "latency", "drift")[position]
    with pytest.raises(ValueError, match=f"{what} must be zero or more seconds"):
        suggest_ttl(*arguments)


def test_a_ttl_is_not_suggested_for_what_is_no_number() -> None:
    with pytest.raises(
        TypeError, match="latency must be a number of seconds or a timedelta, not str"
    ):
        suggest_ttl(1.0, "1", 1.0)  # type: ignore[arg-type]
