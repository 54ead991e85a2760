"""Tickets and owners, as engines store them and as people see them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.ticket import Owner, Place, Standing, Ticket

HOSTS = st.text(st.characters(exclude_characters=" ", exclude_categories=["Cs"]), min_size=1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
LABELS = TEXTS.filter(lambda text: "\t" not in text)


@given(HOSTS, st.integers(0, 2**31), LABELS, TEXTS)
def test_an_owner_survives_being_stored(host: str, pid: int, label: str, data: str) -> None:
    owner = Owner(host, pid, label, data)
    assert Owner.unpack(owner.pack()) == owner


@pytest.mark.parametrize("label", ["", " ", "two words", "  both  ends  ", "Zoë's 🔧", "a b 7 c"])
def test_labels_with_spaces(label: str) -> None:
    assert Owner.unpack(Owner("host", 7, label).pack()).label == label


def test_how_an_owner_is_shown() -> None:
    assert str(Owner("web-1", 42)) == "pid 42 on web-1"
    assert str(Owner("web-1", 42, "nightly report")) == "nightly report (pid 42 on web-1)"


def test_the_id_is_secret() -> None:
    ticket = Ticket("order:42", "the-secret", 30.0, Owner("web-1", 42))
    for shown in (repr(ticket), str(ticket), f"{ticket}"):
        assert "the-secret" not in shown
    assert repr(ticket) == "<Ticket for 'order:42' of pid 42 on web-1>"


def test_a_place_is_the_number_that_engines_answer_with() -> None:
    assert [int(place) for place in Place] == [0, 1, 2, 3]
    assert Place(2) is Place.ADMITTED


def test_a_standing_that_says_nothing_more() -> None:
    gone = Standing(Place.GONE)
    assert (gone.fence, gone.abandoned, gone.recheck) == (0, False, float("inf"))
