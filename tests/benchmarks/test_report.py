"""Charts, results, and one small run from end to end."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.report.results import as_json, disagreements
from benchmarks.rounds import Table
from fencelock.cli.charts.draw import Curves, draw_bars, draw_curves, spread
from fencelock.cli.charts.svg import Scale

ROOT = Path(__file__).parent.parent.parent
SVG = "{http://www.w3.org/2000/svg}"


def words(picture: str) -> list[str | None]:
    return [text.text for text in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_bars_stand_in_order_and_the_limit_is_a_line_through_them() -> None:
    values = {"ours": 70.0, "a & b": 140.0, "limit: c": 20.0}
    picture = draw_bars("title", "µs", values, best="lower")
    shown = [word for word in words(picture) if word in values]
    assert shown == ["limit: c", "ours", "a & b"]
    dashed = [
        line
        for line in ElementTree.fromstring(picture).iter(f"{SVG}line")
        if line.get("stroke-dasharray")
    ]
    assert len(dashed) == 1
    widths = [
        float(bar.get("width", 0)) for bar in ElementTree.fromstring(picture).iter(f"{SVG}rect")
    ]
    assert widths[2] * 2 - widths[3] < 1, "a bar is as long as its value is large"


def test_curves_are_named_where_they_end_and_leave_out_what_was_not_measured() -> None:
    curves: Curves = {
        "ours": {2: 10.0, 8: 100.0},
        "b": {2: 0.0, 8: 5000.0},
        "limit: c": {2: 9000.0},
    }
    picture = draw_curves("title", "processes", "per s", curves, best="higher")
    assert {"ours", "b", "limit: c", "2", "8", "processes"} <= set(words(picture))
    lines = {
        line.get("class"): str(line.get("points")).split()
        for line in ElementTree.fromstring(picture).iter(f"{SVG}polyline")
    }
    assert {name: len(points) for name, points in lines.items()} == {
        "s-ours": 2,
        "s-c0": 1,
        "s-limit": 1,
    }


def test_scales() -> None:
    straight, bent = Scale([5, 42], 0, 100), Scale([3, 4200], 0, 100)
    assert straight.ticks() == [0, 10, 20, 30, 40]
    assert bent.ticks() == [1, 10, 100, 1000]
    assert straight(0) == bent(1) == 0
    assert round(bent(100) - bent(10), 6) == round(bent(1000) - bent(100), 6)


def test_labels_keep_apart() -> None:
    placed = spread({"a": 10, "b": 11, "c": 100}, 17)
    assert placed["b"] - placed["a"] >= 17
    assert placed["c"] > placed["b"] + 17


def results(ours: float, theirs: float) -> dict[str, object]:
    table = Table("t", "µs", "lower", {"ours": [ours], "b": [theirs], "c": [float("inf")]})
    text = as_json({}, {"s": [table]}, {})
    assert "Infinity" not in text, "that is not JSON"
    return dict(json.loads(text))


def test_two_runs_disagree_when_somebody_is_clearly_better_and_then_clearly_worse() -> None:
    assert not list(disagreements(results(10, 20), results(10, 11)))
    assert not list(disagreements(results(10, 20), results(11, 10))), "as good as equal"
    (found,) = disagreements(results(10, 20), results(20, 10))
    assert found == "t: ours was 2.00 times as good as b, and then 0.50 times"


def test_a_run_from_end_to_end(tmp_path: Path) -> None:
    """Without a Redis server and without the rivals, which only `./bench` installs."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "setpriv").symlink_to(str(shutil.which("setpriv")))
    report = tmp_path / "report"
    only = ("--only", "redis-pair", "--only", "sqlite-pair")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", *only, "--report", report],
        env={**os.environ, "PATH": str(commands), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "| SQLite pair, sync, µs |" in done.stdout
    assert "- redis-pair was skipped: redis does not start" in done.stdout
    assert "portalocker is left out: ModuleNotFoundError" in done.stdout
    assert "limit: bare lease row" in words((report / "sqlite-pair.svg").read_text())
    assert "](sqlite-pair.svg)" in (report / "report.md").read_text()
    (table,) = json.loads((report / "results.json").read_text())["scenarios"]["sqlite-pair"]
    assert len(table["samples"]["Fencelock"]) == 7
