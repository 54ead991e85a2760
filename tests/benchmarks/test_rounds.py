"""Rounds, ratios, and what happens to contestants that fail."""

import time

import pytest

from benchmarks.report.tables import details, notes, rows
from benchmarks.rounds import Table, interleave, patience
from fencelock.cli.charts.draw import figure


def fail() -> float:
    raise OSError("not today")


def test_everybody_has_a_go_in_each_round() -> None:
    notes: list[str] = []
    values = iter(range(100))
    samples = interleave({"ours": lambda: next(values), "b": lambda: 0.0}, 3, notes, warm=True)
    assert samples == {"ours": [1, 2, 3], "b": [0, 0, 0]}, "the first is to warm up"
    assert not notes


def test_a_rival_that_fails_is_left_out_and_we_are_not() -> None:
    notes: list[str] = []
    assert interleave({"ours": lambda: 1.0, "b": fail}, 2, notes) == {"ours": [1, 1]}
    assert notes == ["b is left out: OSError: not today"]
    with pytest.raises(OSError, match="not today"):
        interleave({"ours": fail, "b": lambda: 1.0}, 2, notes)


def test_who_hangs_is_interrupted() -> None:
    with pytest.raises(TimeoutError, match=r"no end after 0.01 s"), patience(0.01):
        time.sleep(60)


def test_a_ratio_above_one_means_that_we_are_ahead() -> None:
    samples = {"ours": [1.0, 2.0], "b": [4.0, 4.0]}
    assert Table("t", "µs", "lower", samples).ratios("b") == [4, 2]
    assert Table("t", "per s", "higher", samples).ratios("b") == [0.25, 0.5]
    assert Table("t", "per s", "higher", {"ours": [1.0], "b": [0.0]}).ratios("b") == [float("inf")]


def test_a_table_in_markdown() -> None:
    samples = {"ours": [10.0] * 3, "b": [20.0, 30.0, 40.0], "limit: c": [1.0] * 3}
    table = Table("t", "µs", "lower", samples, {"b": 2.0}, ["so"], {"ours": {"Jain": 1.0}})
    assert list(rows(table)) == [
        "| t, µs | 10 | b | 30 | **3** | 2.5–3.5 | ≥ 2 |",
        "|  |  | limit: c | 1 | **0.1** | 0.1–0.1 |  |",
    ]
    assert list(details(table))[-1] == "| ours | 10 | 1 |"
    assert list(notes(table)) == ["- t: so"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0123456, "0.0123"), (12.345, "12.3"), (98765.4, "98,765"), (100, "100")]
)
def test_figures_have_three_digits(value: float, text: str) -> None:
    assert figure(value) == text
