"""The examples without a lock show the failure and its cure; what merges, merges in any order."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import test_examples
from tests.effort import effort

cheaply = settings(
    max_examples=effort(60, 3_000), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

PLACES = st.sampled_from(["a", "b", "c"])

counters: Any = import_module("examples.without_locks.g_counter")
registers: Any = import_module("examples.without_locks.lww_register")
sets: Any = import_module("examples.without_locks.or_set")


def outcome(name: str, folder: Path, *arguments: str) -> list[str]:
    return test_examples.outcome(f"without_locks/{name}", folder, *arguments).splitlines()


def test_one_statement_sells_each_piece_once(tmp_path: Path) -> None:
    without, cure = outcome("atomic_update.py", tmp_path)
    assert without == "read, then write: 4 of 3 sold, 2 left"
    assert cure == "one statement:    3 of 3 sold, 0 left"


def test_a_constraint_gives_a_seat_to_one_person(tmp_path: Path) -> None:
    without, cure = outcome("unique_constraint.py", tmp_path)
    assert without == "look, then book:   4 booked, 0 were told that it is taken"
    assert cure == "with a constraint: 1 booked, 3 were told that it is taken"


def test_a_request_with_a_key_charges_once(tmp_path: Path) -> None:
    without, cure = outcome("idempotency_key.py", tmp_path)
    assert without == "without a key: charged 4 ×, 3 receipt numbers"
    assert cure == "with a key:    charged 1 ×, 1 receipt numbers"


def test_an_account_with_one_worker_loses_nothing(tmp_path: Path) -> None:
    without, cure = outcome("partitions.py", tmp_path)
    lost = re.fullmatch(r"any worker:             (\d+) cents are lost", without)
    assert lost
    assert int(lost[1]) >= 300, (
        "four workers read the same balance, so at least three deposits are gone"
    )
    assert cure == "one worker per account: nothing is lost"


def test_an_event_is_appended_only_to_the_events_that_were_read(tmp_path: Path) -> None:
    without, cure = outcome("event_sourcing.py", tmp_path)
    assert without == "append:                paid and paid, balance -40"
    assert cure == "with expected version: paid and refused, balance 30"


def test_a_version_keeps_all_lines(tmp_path: Path) -> None:
    without, cure = outcome("optimistic_version.py", tmp_path)
    assert without == "last editor wins: 1 of 4 lines are there, after 4 attempts"
    kept = re.fullmatch(r"with a version:   4 of 4 lines are there, after (\d+) attempts", cure)
    assert kept
    assert 7 <= int(kept[1]) <= 10, (
        "three editors are overtaken at first; the last one, three times at most"
    )


def test_if_match_refuses_a_document_that_was_changed(tmp_path: Path) -> None:
    without, second, cure = outcome("etag.py", tmp_path)
    assert without.split(": ")[1].split() == ["bob"]
    assert second == "the second PUT with If-Match: 412"
    assert cure.split(": ")[1].split() == ["bob", "cy", "dan"]


def test_a_single_writer_numbers_without_gaps(tmp_path: Path) -> None:
    without, refused, cure = outcome("single_writer.py", tmp_path)
    assert without == "two writers:   1:ada 1:bob"
    assert refused == "refused:       the old leader"
    assert cure == "single writer: 1:ada 2:bob 3:cy 4:dan"


@pytest.mark.parametrize("engine", ["sqlite", "redis"])
def test_a_page_is_built_once(request: pytest.FixtureRequest, tmp_path: Path, engine: str) -> None:
    urls = [f"{request.getfixturevalue('redis_url')}/9"] if engine == "redis" else []
    without, cure = outcome("efficiency_lock.py", tmp_path, *urls)
    assert without == "without a lock: 6 answers, builds: 6"
    assert cure == "with the lock:  6 answers, builds: 1"


def test_a_guard_refuses_a_clerk_that_was_overtaken(tmp_path: Path) -> None:
    without, cure = outcome("correctness_lock.py", tmp_path)
    assert without == "a lock alone:     the late write is accepted, the estimate is 100"
    assert cure == "lock and a guard: the late write is refused, the estimate is 400"


def test_counters_are_merged(tmp_path: Path) -> None:
    larger, total, paris, tokyo = outcome("g_counter.py", tmp_path)
    assert larger == "one number each, the larger: 15 of 18"
    assert total == "one number each, the sum:    28 of 18"
    assert paris == "a G-counter in paris:        18 of 18"
    assert tokyo == "a G-counter in tokyo:        18 of 18"


def test_shopping_lists_are_merged(tmp_path: Path) -> None:
    union, intersection, merged, again = outcome("or_set.py", tmp_path)
    assert union == "plain sets, union:        bread eggs milk"
    assert intersection == "plain sets, intersection: bread"
    assert merged == "an OR-set on both phones: bread eggs"
    assert again == "removed and added again:  bread eggs"


def test_a_vector_clock_notices_what_the_last_writer_loses(tmp_path: Path) -> None:
    last, clock, both, answer = outcome("lww_register.py", tmp_path)
    assert last == "last writer wins: 2 New Street, Oldtown"
    assert clock == "the vector clock says: concurrent"
    assert both.endswith("'2 New Street, Oldtown' or '1 Old Street, Newtown'?")
    assert answer == "the answer comes after both"


def test_the_page_leads_to_every_example() -> None:
    page = (test_examples.EXAMPLES.parent / "docs" / "do-you-need-a-lock.md").read_text()
    for example in (test_examples.EXAMPLES / "without_locks").glob("*.py"):
        assert f"](../examples/without_locks/{example.name})" in page


# --- what merges: in any order, and as often as one likes


@st.composite
def g_counters(draw: st.DrawFn) -> Any:
    return counters.GCounter(draw(st.dictionaries(PLACES, st.integers(1, 9))))


@st.composite
def or_sets(draw: st.DrawFn) -> Any:
    """Copies of one list: the same tag always belongs to the same item."""
    items = sets.OrSet()
    for tag in draw(st.sets(st.integers(0, 5))):
        items = items.add("abc"[tag % 3], str(tag))
    for item in draw(st.sets(st.sampled_from("abc"))):
        items = items.remove(item)
    return items


def lww_registers() -> st.SearchStrategy[Any]:
    return st.builds(registers.LwwRegister, st.integers(0, 3), PLACES, st.sampled_from("xyz"))


@cheaply
@given(
    st.one_of(*(st.tuples(kind, kind, kind) for kind in (g_counters(), or_sets(), lww_registers())))
)
def test_merges_are_commutative_associative_and_idempotent(three: tuple[Any, Any, Any]) -> None:
    a, b, c = three
    assert a.merge(b) == b.merge(a)
    assert a.merge(b).merge(c) == a.merge(b.merge(c))
    assert a.merge(b).merge(b) == a.merge(b)


Step = tuple[str, str, str]
STEPS = st.lists(
    st.tuples(PLACES, st.sampled_from(["add", "remove", "merge"]), PLACES), max_size=12
)


@cheaply
@given(STEPS)
def test_copies_that_heard_of_everything_agree(steps: list[Step]) -> None:
    """Three places change their copies and send them to one another. In the end each hears of all."""
    count, items = (dict.fromkeys("abc", empty) for empty in (counters.GCounter(), sets.OrSet()))
    added = 0
    for number, (place, what, other) in enumerate(steps):
        if what == "add":
            count[place], items[place] = (
                count[place].add(place),
                items[place].add(other, str(number)),
            )
            added += 1
            assert other in items[place].items
        elif what == "remove":
            items[place] = items[place].remove(other)
            assert other not in items[place].items
        else:
            count[place] = count[place].merge(count[other])
            items[place] = items[place].merge(items[other])
    for copies in (count, items):
        first, *others = copies.values()
        everything = first.merge(others[0]).merge(others[1])
        assert all(copy.merge(everything) == everything for copy in copies.values())
    assert count["a"].merge(count["b"]).merge(count["c"]).value == added


@cheaply
@given(STEPS)
def test_vector_clocks_know_what_was_seen(steps: list[Step]) -> None:
    """Compared with the plain truth: the set of all changes that a copy has seen."""
    clocks = dict.fromkeys("abc", registers.VectorClock())
    truth: dict[str, frozenset[int]] = dict.fromkeys("abc", frozenset())
    for number, (place, what, other) in enumerate(steps):
        if what == "merge":
            clocks[place] = clocks[place].merge(clocks[other])
            truth[place] |= truth[other]
        else:
            clocks[place] = clocks[place].tick(place)
            truth[place] |= {number}
    for one, other in ("ab", "bc", "ca"):
        mine, theirs = truth[one], truth[other]
        expected = {(True, True): "same", (True, False): "after", (False, True): "before"}.get(
            (mine >= theirs, theirs >= mine), "concurrent"
        )
        assert clocks[one].compare(clocks[other]) == expected
