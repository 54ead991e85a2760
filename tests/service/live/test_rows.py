"""The board: what a page that comes back is told, whatever has happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.ticket import Holder, Inspection, Owner, Waiter
from fencelock.service.live import rows
from fencelock.service.live.rows import Board, row_of
from fencelock.service.live.wire import Row

OWNER = Owner("host", 1, "label", "data that nobody may see")


def seen(name: str, *fences: int, waiting: int = 0, held_for: float = 5.0) -> Inspection:
    holders = tuple(Holder(OWNER, fence, held_for, 20.0) for fence in fences)
    waiters = tuple(Waiter(OWNER, 100 + at, 1.0, 20.0) for at in range(waiting))
    return Inspection(name, holders, waiters, waiting, max(fences, default=0), False)


def names_on(board: Board) -> set[str]:
    return {row.name for row in board.rows()}


def test_a_row_says_what_was_seen() -> None:
    board = Board()
    board.looked(seen("a", 7, waiting=2), 100.0)
    row = board.row("a")
    (holder,) = row.holders
    assert (holder.fence, holder.since, holder.until, holder.ttl) == ("7", 95.0, 120.0, 20.0)
    assert row.first is not None
    assert (row.first.fence, row.first.since, row.waiting) == ("100", 99.0, 2)
    assert "nobody may see" not in repr(row)


def test_a_holder_has_held_since_the_same_moment_in_each_look() -> None:
    board = Board()
    board.looked(seen("a", 7, held_for=5.0), 100.0)
    board.looked(seen("a", 7, held_for=6.3), 101.0)
    assert board.row("a").holders[0].since == 95.0
    board.looked(
        seen("a", 100, held_for=0.5), 102.0
    )  # the waiter with this fence has waited before
    assert board.row("a").holders[0].since == 101.5


def test_an_older_look_that_is_answered_later_changes_nothing() -> None:
    board = Board()
    board.looked(seen("a", 8), 101.0)
    board.looked(seen("a", 7), 100.0)
    assert board.row("a").holders[0].fence == "8"


def test_a_name_that_is_not_listed_any_more_is_gone_unless_it_was_seen_later() -> None:
    board = Board()
    board.looked(seen("a", 1), 100.0)
    board.looked(seen("b", 1), 102.0)
    board.listed(set(), began=101.0)
    assert names_on(board) == {"b"}


def test_a_dead_record_is_looked_at_less_and_less() -> None:
    board = Board()
    looks = []
    for now in range(40):
        board.found(["dead"], float(now))
        if "dead" in board.unlooked:
            looks.append(now)
            board.looked(seen("dead"), float(now))
        board.listed({"dead"}, float(now))
    assert looks == [0, 1, 3, 7, 15, 31]
    assert not names_on(board)


def test_signs_of_transactions_are_no_locks() -> None:
    board = Board()
    board.found(["tx 12ab (waits)", "tx 12ab.3 (bell)", "tx"], 0.0)
    assert list(board.unlooked) == ["tx"]
    board.looked(seen("tx 12ab (waits)", 1), 0.0)
    assert not names_on(board)


def test_a_full_board_leaves_names_out_and_says_so() -> None:
    board = Board(limit=2)
    for name in "abc":
        board.looked(seen(name, 1), 1.0)
    board.listed({"a", "b", "c"}, 0.0)
    assert len(board) == 2
    assert board.left_out == 1


def test_one_who_knows_too_little_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "_REMEMBERED", 2)
    board = Board()
    for name in "abcd":
        board.looked(seen(name, 1), 1.0)
    known = board.version
    for name in "abc":
        board.looked(seen(name), 2.0)
    changes = board.since(known)
    assert changes.reset
    assert [row.name for row in changes.rows] == ["d"]
    assert not board.since(known + 2).reset
    assert board.since(board.version + 1).reset  # of another replica, or made up


STEPS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["held", "free", "listed", "told"])),
    max_size=40,
)


@given(STEPS)
def test_changes_bring_a_page_to_the_same_state(steps: Iterable[tuple[str, str]]) -> None:
    board, version = Board(), 0
    told: dict[str, Row] = {}
    for now, (name, step) in enumerate(steps, start=1):
        if step == "held":
            board.looked(seen(name, now), float(now))
        elif step == "free":
            board.looked(seen(name), float(now))
        elif step == "listed":
            board.listed({name}, float(now))
        else:
            changes = board.since(version)
            told = {} if changes.reset else told
            told.update({row.name: row for row in changes.rows})
            for gone in changes.gone:
                told.pop(gone, None)
            version = board.version
            assert told == {row.name: row for row in board.rows()}


def test_the_usual_time_is_rounded_so_that_rows_do_not_change_all_the_time() -> None:
    board = Board()
    board.looked(seen("a", 1), 1.0)
    board.compare(lambda name: (1.2345, "prefix"))
    version = board.version
    board.compare(lambda name: (1.2399, "prefix"))
    assert board.version == version
    assert (board.row("a").usual, board.row("a").usual_of) == (1.2, "prefix")
    board.looked(seen("a", 1), 2.0)
    assert board.row("a").usual == 1.2


def test_a_free_name_has_a_row_too() -> None:
    row = row_of(seen("a"), 1.0)
    assert (row.holders, row.waiting) == ((), 0)
