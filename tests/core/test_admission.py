"""The one rule: admitted when fewer than `permits` conflicting tickets stand ahead."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.admission import admitted, conflicts
from holdfast.core.ticket import Mode, Owner, Ticket

E, R, W = Mode.EXCLUSIVE, Mode.READ, Mode.WRITE


def ticket(mode: Mode = E, permits: int = 1) -> Ticket:
    return Ticket("name", "id", 1.0, Owner("host", 1), mode, permits)


@pytest.mark.parametrize(
    ("mine", "ahead", "expected"),
    [(E, E, True), (R, R, False), (R, W, True), (W, R, True), (W, W, True)],
)
def test_who_minds_whom(mine: Mode, ahead: Mode, expected: bool) -> None:
    assert conflicts(ticket(mine), ticket(ahead)) is expected


@pytest.mark.parametrize(
    ("mode", "permits", "ahead", "expected"),
    [
        (E, 1, "", True),
        (E, 1, "E", False),
        (E, 3, "EE", True),
        (E, 3, "EEE", False),
        (R, 1, "RRRR", True),
        (R, 1, "RRWR", False),
        (W, 1, "", True),
        (W, 1, "R", False),
        (W, 1, "W", False),
    ],
)
def test_who_is_admitted(mode: Mode, permits: int, ahead: str, expected: bool) -> None:
    modes = {"E": E, "R": R, "W": W}
    others = [ticket(modes[letter]) for letter in ahead]
    assert admitted(ticket(mode, permits), others) is expected


@given(
    st.lists(st.builds(ticket, st.sampled_from(Mode), st.integers(1, 4)), max_size=8),
    st.builds(ticket, st.sampled_from(Mode), st.integers(1, 4)),
)
def test_fewer_ahead_never_hurts(ahead: list[Ticket], mine: Ticket) -> None:
    if admitted(mine, ahead):
        for index in range(len(ahead)):
            assert admitted(mine, ahead[:index] + ahead[index + 1 :])
