"""The three states of a lease: the clock always wins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.lease import LeaseState, state_of

H, S, L = LeaseState.HELD, LeaseState.SUSPENDED, LeaseState.LOST


@pytest.mark.parametrize(
    ("now", "suspended", "lost", "expected"),
    [
        (9.9, False, False, H),
        (9.9, True, False, S),
        (9.9, False, True, L),
        (9.9, True, True, L),
        (10.0, False, False, L),
        (10.0, True, False, L),
        (11.0, False, False, L),
    ],
)
def test_states(now: float, suspended: bool, lost: bool, expected: LeaseState) -> None:
    assert state_of(now, 10.0, suspended=suspended, lost=lost) is expected


@given(st.floats(0, 1e9), st.floats(0, 1e9), st.booleans())
def test_past_its_deadline_a_lease_is_lost_whatever_else_is_known(
    now: float, deadline: float, suspended: bool
) -> None:
    state = state_of(now, deadline, suspended=suspended, lost=False)
    assert (state is L) is (now >= deadline)
