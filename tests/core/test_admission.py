"""The rule: a ticket fits beside holders of its own group while permits are left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.admission import fits, room_at
from fencelock.core.ticket import ALONE, READING, Share

SHARES = st.sampled_from([ALONE, READING, Share.of(3), Share.of(3, 2), Share.of(2)])


@pytest.mark.parametrize(
    ("mine", "holding", "expected"),
    [
        (ALONE, [], True),
        (ALONE, [ALONE], False),
        (ALONE, [READING], False),
        (ALONE, [Share.of(9)], False),
        (READING, [], True),
        (READING, [READING] * 1000, True),
        (READING, [ALONE], False),
        (READING, [Share.of(9)], False),
        (Share.of(3), [ALONE], False),
        (Share.of(3), [Share.of(3)] * 2, True),
        (Share.of(3), [Share.of(3)] * 3, False),
        (Share.of(3, 2), [Share.of(3)], True),
        (Share.of(3, 2), [Share.of(3)] * 2, False),
        (Share.of(3), [Share.of(3, 3)], False),
        (Share.of(4), [Share.of(3)], False),
    ],
)
def test_which_tickets_fit_together(mine: Share, holding: list[Share], expected: bool) -> None:
    assert fits(mine, holding) is expected


@pytest.mark.parametrize(
    ("mine", "expected"),
    [
        (Share.rate(5, 60.0), 10.0),
        (Share.rate(5, 60.0, 2), 20.0),
        (Share.rate(5, 60.0, 5), 30.0),
        (Share.rate(3, 60.0), 20.0),
        (Share.rate(9, 60.0), 10.0),
        (Share.rate(5, 61.0), 10.0),
    ],
    ids=["one", "two", "all", "a lower limit", "others wait ahead", "another group"],
)
def test_when_a_rate_has_room(mine: Share, expected: float) -> None:
    holding = [
        (Share.rate(5, 60.0, weight), at) for weight, at in ((1, 10.0), (2, 20.0), (2, 30.0))
    ]
    assert room_at(mine, holding) == expected


@given(st.lists(SHARES, max_size=8), SHARES)
def test_fewer_holders_never_hurt(asking: list[Share], mine: Share) -> None:
    holding: list[Share] = []
    for share in asking:
        if fits(share, holding):
            holding.append(share)
    if fits(mine, holding):
        for index in range(len(holding)):
            assert fits(mine, holding[:index] + holding[index + 1 :])
