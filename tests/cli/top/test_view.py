"""The picture fits every terminal, and says how old it is."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from fencelock.cli.top import keys
from fencelock.cli.top.model import Look, Poll, Trouble
from fencelock.cli.top.parts import at_least, bar, brief, fit, tail
from fencelock.cli.top.poller import Break, Open, Refresh, Stop
from fencelock.cli.top.state import Page, State
from fencelock.cli.top.view import picture
from fencelock.core.ticket import READING, Holder, Inspection, Owner, Waiter
from tests.effort import effort

FENCE = 1794775805475060

owners = st.builds(Owner, st.text(max_size=30), st.integers(0, 10**7), st.text(max_size=200))
numbers = st.floats(0, 1e9) | st.just(math.inf)
holders = st.builds(Holder, owners, st.integers(0, 2**63), st.floats(0, 1e9), numbers)
waiters = st.builds(Waiter, owners, st.integers(0, 2**63), st.floats(0, 1e9), numbers)
inspections = st.builds(
    Inspection,
    st.text(min_size=1, max_size=300),
    st.lists(holders, max_size=3).map(tuple),
    st.lists(waiters, max_size=3).map(tuple),
    st.integers(0, 10**6),
    st.integers(0, 2**63),
    st.booleans(),
)
pressed = st.sampled_from([*"sjkGgb/?abyes", keys.ENTER, keys.ESCAPE, keys.UP, keys.PAGE_DOWN])


def state_of(*found: Inspection, at: float = 100.0) -> State:
    state = State("redis://:***@localhost")
    looks = {each.name: Look(at, each) for each in found}
    state.model.take(Poll(at, 0.01, 1.0, sorted(looks), 0, looks))
    return state


def held(name: str = "order:42", *, waiting: int = 0, abandoned: bool = False) -> Inspection:
    holder = Holder(Owner("shop1", 4711, "web"), FENCE, 3.2, 29.0)
    queue = tuple(Waiter(Owner("shop2", 5, f"w{n}"), FENCE + n, 9.0, 8.0) for n in range(waiting))
    return Inspection(name, (holder,), queue, waiting, FENCE, abandoned)


def text(state: State, width: int = 80, height: int = 24, now: float = 101.0) -> str:
    return "\n".join(line.plain.rstrip() for line in picture(state, width, height, now))


@settings(max_examples=effort(60, 3_000), deadline=None)
@given(
    st.lists(inspections, max_size=8),
    st.lists(pressed, max_size=8),
    st.integers(1, 150),
    st.integers(1, 40),
    st.text(max_size=200),
)
def test_it_fits_every_terminal(
    found: list[Inspection], typed: list[str], width: int, height: int, trouble: str
) -> None:
    state = state_of(*found)
    if trouble:
        state.model.fail(Trouble(trouble, 105.0))
    for key in typed:
        state.press(key)
        lines = picture(state, width, height, 101.0)
        assert len(lines) == height
        for line in lines:
            assert cell_len(line.plain) <= width
            assert line.plain.isprintable()


def test_a_row() -> None:
    state = state_of(held(waiting=2, abandoned=True))
    head, row = text(state, width=100).splitlines()[2:4]
    assert head.split() == ["NAME", "HOLDER", "FENCE", "HELD", "TTL", "WAIT", "HANDOFFS", "!"]
    assert row.split("  ")[0] == "order:42 web (pid 4711 on shop1)"
    assert row.split()[-6:] == [str(FENCE), "3.2s", "█████", "29s", "2", "!"]
    narrow = text(state).splitlines()[3]
    assert str(FENCE) not in narrow
    assert f"…{str(FENCE)[-7:]}" in narrow


def test_how_many_hold_it() -> None:
    seen = held()
    reader = seen.holders[0]._replace(share=READING)
    state = state_of(seen._replace(holders=(reader,) * 3))
    assert "+2 web (pid 4711 on shop1), reading" in text(state, width=120)


def test_the_queue() -> None:
    state = state_of(held(waiting=2)._replace(waiting=500))
    assert state.press(keys.ENTER) == Open("order:42")
    lines = text(state).splitlines()
    assert [line.split()[0] for line in lines[6:9]] == ["holds", "1", "2"]
    assert "w1 (pid 5 on shop2)" in lines[8]
    assert lines[9] == "and 498 more"


def test_what_is_not_known() -> None:
    state = State("redis://localhost")
    assert "waiting for the engine" in text(state)
    state.model.fail(Trouble("redis://localhost: can't connect", 104.2))
    assert "NO ANSWER YET (next try in 3 s): can't connect" in text(state)
    state = state_of(held())
    assert "STALE" not in text(state, now=130.0)
    state.asking_since = 101.0
    assert "STALE" not in text(state, now=102.0)
    shown = text(state, now=104.0).replace("\n", " ")
    assert "STALE: what you see is from" in shown
    assert ", 4.0 s ago: the engine has not answered for 3.0 s" in shown
    state.asking_since = None
    state.model.fail(Trouble("why", 104.2))
    assert "4.0 s ago (trying again now): why" in text(state, now=104.0).replace("\n", " ")
    assert text(state, height=4, now=104.0).startswith("STALE")


def test_names_that_were_not_looked_at() -> None:
    state = state_of(held())
    last = state.model.last
    assert last is not None
    state.model.take(last._replace(at=101.0, names=["a", "order:42"], more=7_000, looks={}))
    shown = text(state)
    assert "7,002 names" in shown
    assert "1 looked at" in shown
    assert "7,000 not shown: use --pattern" in shown
    state.order = "name"
    assert text(state).splitlines()[3].split() == ["a", "…"]


def test_the_selection_stays_with_its_name() -> None:
    state = state_of(*(held(name, waiting=9 - place) for place, name in enumerate("abcd")))
    state.shown(2)
    for _ in range(2):
        state.press(keys.DOWN)
    assert [row.name for row in state.shown(2)] == ["b", "c"]
    state.press("s")
    state.order = "name"
    looks = {name: Look(101.0, held(name)) for name in ("0", *"abcd")}
    last = state.model.last
    assert last is not None
    state.model.take(last._replace(at=101.0, names=list(looks), looks=looks))
    assert state.rows()[state.index()].name == "c"
    del looks["c"]
    state.model.take(last._replace(at=102.0, names=list(looks), looks=looks))
    assert state.rows()[state.index()].name == "d"
    state.press(keys.HOME)
    assert state.rows()[state.index()].name == "0"


def test_only_yes_breaks() -> None:
    state = state_of(held())
    holders = held().holders
    for answer in ("y", "no", "yess", "YES", "", "ye" + "x"):
        state.press("b")
        for key in answer:
            assert state.press(key) is None
        assert state.press(keys.ENTER) is None
        assert "was not broken" in text(state)
    state.press("b")
    for key in ("x", keys.BACKSPACE, *"yes"):
        assert state.press(key) is None
    assert state.press(keys.ENTER) == Break("order:42", holders)


def test_the_question_is_about_the_holder_that_was_shown() -> None:
    state = state_of(held())
    state.press("b")
    newer = held()._replace(holders=(held().holders[0]._replace(fence=FENCE + 9),))
    state.model.look(Look(101.0, newer))
    assert f"Break fence {FENCE}?" in text(state)
    for key in "yes":
        state.press(key)
    assert state.press(keys.ENTER) == Break("order:42", held().holders)


def test_other_keys() -> None:
    state = state_of(held())
    assert state.press("r") == Refresh()
    assert state.press("q") == Stop()
    for key in "/bq":
        assert state.press(key) is None
    assert (state.filter, state.page) == ("bq", Page.LIST)
    assert "No name matches the filter." in text(state)
    state.press(keys.CLEAR)
    assert state.filter == ""
    state.press(keys.ESCAPE)
    free = state_of(held()._replace(holders=(), waiting=1))
    free.press("b")
    assert "nobody holds 'order:42'" in text(free)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1.0, "0.0s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (303, "5m03s"),
        (3599, "59m"),
        (3600, "1h00m"),
        (35_999, "9h59m"),
        (86_399, "23h"),
        (90_000, "1d01h"),
        (99 * 86_400, "99d"),
        (math.inf, "never"),
    ],
)
def test_short_durations(seconds: float, shown: str) -> None:
    assert brief(seconds) == shown


def test_small_parts() -> None:
    fitted = [fit("名名名", width) for width in (0, 1, 2, 3, 6, 7)]
    assert fitted == ["", "…", " …", "名…", "名名名", "名名名 "]
    assert fit("7", 3, right=True) == "  7"
    assert (tail("123456", 4), tail("1234", 4)) == ("…456", "1234")
    assert [bar(left, 10.0, 5) for left in (0.0, 0.1, 5.0, 10.0, 11.0)] == [
        "░░░░░",
        "█░░░░",
        "███░░",
        "█████",
        "█████",
    ]
    assert [at_least(rate) for rate in (None, 0.0, 0.999, 1.99, 42.9)] == [
        "", "", "≥0.99/s", "≥1.9/s", "≥42/s"
    ]  # fmt: skip
