"""What polls become: rows, orders and rates."""

from __future__ import annotations

import math

import pytest

from fencelock.cli.top.model import WINDOW, Look, Model, Order, Poll, choose, matching
from fencelock.core.ticket import Holder, Inspection, Owner

OWNER = Owner("host", 1)


def seen(
    name: str, *fences: int, held: float = 1.0, left: float = 30.0, waiting: int = 0
) -> Inspection:
    """A name that is held with these fences."""
    holders = tuple(Holder(OWNER, fence, held, left) for fence in fences)
    return Inspection(name, holders, (), waiting, max(fences, default=0), False)


def poll(at: float, *found: Inspection, others: tuple[str, ...] = (), more: int = 0) -> Poll:
    """A poll that has looked at these names, and not at the others."""
    looks = {each.name: Look(at, each) for each in found}
    return Poll(at, 0.01, 1.0, sorted([*looks, *others]), more, looks)


def names(model: Model, order: Order = "waiting", filter: str = "") -> list[str]:
    return [row.name for row in model.rows(order, filter)]


def test_orders() -> None:
    model = Model()
    model.take(
        poll(
            100.0,
            seen("old", 1, held=50.0),
            seen("new", 2, held=5.0),
            seen("busy", 3, held=5.0, waiting=2),
            seen("unheld", waiting=1),
            others=("a later one",),
        )
    )
    assert names(model, "waiting") == ["busy", "unheld", "old", "new", "a later one"]
    assert names(model, "held") == ["old", "busy", "new", "unheld", "a later one"]
    assert names(model, "name") == ["a later one", "busy", "new", "old", "unheld"]
    assert (len(model.names), model.looked) == (5, 4)


def test_the_order_does_not_tremble() -> None:
    """When a holder came is reckoned from a look, and looks differ by the time that an answer takes."""
    model = Model()
    model.take(poll(100.0, seen("a", 1, held=5.0), seen("b", 2, held=5.001)))
    assert names(model, "held") == ["b", "a"]
    model.take(poll(101.0, seen("a", 1, held=6.003), seen("b", 2, held=6.0)))
    assert names(model, "held") == ["b", "a"]


@pytest.mark.parametrize(
    ("filter", "found"),
    [
        ("", ["order:42", "order:7", "report"]),
        ("ord", ["order:42", "order:7"]),
        ("r", ["order:42", "order:7", "report"]),
        ("order:?", ["order:7"]),
        ("*4*", ["order:42"]),
        ("[r]*", ["report"]),
        ("x", []),
    ],
)
def test_filters(filter: str, found: list[str]) -> None:
    model = Model()
    model.take(poll(0.0, seen("order:42", 1), seen("order:7", 2), others=("report",)))
    assert names(model, "name", filter) == found
    assert matching("report", filter) is ("report" in found)


def test_the_rate_counts_new_holders() -> None:
    model = Model()
    model.take(poll(100.0, seen("x", 1)))
    assert (model.row("x").rate, model.rate) == (None, None)
    model.take(poll(102.0, seen("x", 1)))
    assert model.row("x").rate == 0
    model.take(poll(104.0, seen("x", 7)))
    assert model.row("x").rate == pytest.approx(1 / 4)
    model.take(poll(105.0, seen("x", 9, 10)))  # several, as with a semaphore
    assert model.row("x").rate == pytest.approx(3 / 5)
    model.take(poll(105.0 + WINDOW, seen("x", 9, 10)))
    assert model.row("x").rate == 0


def test_a_rate_is_never_more_than_what_was_seen() -> None:
    """A name at which we look seldom: all the time since the last look counts."""
    model = Model()
    model.take(poll(100.0, seen("x", 1)))
    model.take(poll(101.0, others=("x",)))
    model.take(poll(140.0, seen("x", 2)))
    assert model.row("x").rate == pytest.approx(1 / 40)


def test_a_name_that_comes_and_goes() -> None:
    model = Model()
    model.take(poll(100.0))
    model.take(poll(101.0, seen("x", 1)))  # it was free before, so its holder is new
    model.take(poll(102.0))
    assert names(model) == []
    assert model.rate == pytest.approx(1 / 2)
    model.take(poll(104.0, seen("x", 2)))
    assert model.row("x").rate == pytest.approx(2 / 4)
    model.take(poll(105.0))
    model.take(poll(105.0 + 2 * WINDOW))
    assert model.rate == 0
    assert model._histories == {}, "names that nobody uses any more are forgotten"


def test_a_name_that_was_not_listed_need_not_have_been_free() -> None:
    """If there are too many names, a poll leaves out some."""
    model = Model()
    model.take(poll(100.0, more=1))
    model.take(poll(101.0, seen("x", 1)))
    assert model.row("x").rate is None


def test_a_name_that_is_free_is_not_listed() -> None:
    model = Model()
    model.take(poll(100.0, seen("x", 1), seen("y")))
    assert names(model) == ["x"]
    model.look(Look(100.5, seen("x")))  # as after a break
    assert names(model) == []


def test_a_look_in_the_middle_of_a_poll_is_newer() -> None:
    model = Model()
    model.take(poll(100.0, seen("x", 1)))
    model.look(Look(101.5, seen("x", 2)))
    model.take(poll(101.0, seen("x", 1)))
    row = model.row("x")
    assert row.seen is not None
    assert row.seen.holders[0].fence == 2
    assert row.rate == pytest.approx(1 / 1.5)


def test_the_ttl_is_the_longest_time_seen() -> None:
    model = Model()
    for at, left in ((100.0, 20.0), (101.0, 30.0), (102.0, 10.0)):
        model.take(poll(at, seen("x", 1, left=left)))
    assert (model.row("x").expires_in, model.row("x").ttl) == (10.0, 30.0)
    model.take(poll(103.0, seen("x", 2, left=5.0)))  # the next holder may have another ttl
    assert (model.row("x").expires_in, model.row("x").ttl) == (5.0, 5.0)
    model.take(poll(104.0, seen("x", 3, left=math.inf)))
    assert model.row("x").ttl == math.inf


def test_what_is_looked_at_first() -> None:
    looked_at = {"a": 5.0, "b": 1.0, "c": 3.0}
    order = choose("abcdef", ("c", "gone", "f"), looked_at, lambda name: name != "d")
    assert order == ["c", "f", "e", "b", "a", "d"]
