"""`fencelock plan`: what it says, for people and for programs, and what it refuses."""

from __future__ import annotations

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fencelock.cli.bench.figures import Figure
from fencelock.cli.plan.advice import expectations, instead
from fencelock.cli.plan.speed import speed_of
from fencelock.planning.held import Exponential
from fencelock.planning.model import EngineSpeed, Model
from fencelock.planning.names import Names
from tests.cli.conftest import Cli
from tests.effort import only_in_soaks

ASKED = ("plan", "--rate", "50", "--held", "10ms")
FIGURES = {
    "engine": "redis://localhost:6379/0",
    "figures": [
        {"key": key, "what": "", "total": 9, "p50": p50, "p99": 10 * p50, "per_second": per_second}
        for key, p50, per_second in (
            ("pair", 0.0002, 5000.0),
            ("hand-off", 0.0004, None),
            ("processes", 0.001, 7000.0),
            ("tasks", 0.001, 8000.0),
            ("renewals", 0.001, 90000.0),
        )
    ],
}


@pytest.fixture
def figures(tmp_path: Path) -> str:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(FIGURES))
    return str(path)


def planned(cli: Cli, *words: str) -> dict[str, Any]:
    ended = cli(*ASKED, *words, "--json")
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_for_programs(sqlite_cli: Cli, figures: str) -> None:
    found = planned(sqlite_cli, "--from", figures, "--names", "10", "--zipf", "--capacity", "100")
    assert set(found) == {
        "names", "zipf", "held", "partitions", "engine", "loads", "limits", "finer_names", "ttl",
        "leases_per_process", "expect", "instead",
    }  # fmt: skip
    assert found["engine"] == {
        "label": "redis://localhost:6379/0", "pair": 0.0002, "pair_p99": 0.002, "hand_off": 0.0004,
        "pairs_per_second": 100.0, "renewals_per_second": 90000.0,
    }  # fmt: skip
    now, doubled, more = found["loads"]
    assert [now["times"], doubled["times"], more["times"]] == [1, 2, 4]
    assert set(now) == {
        "times", "per_second", "busiest_per_second", "busy", "mean_wait", "p99_wait",
        "mean_wait_anywhere", "names_without_end", "held", "waiting", "partition_busy",
        "partitions_needed",
    }  # fmt: skip
    assert 0 < now["mean_wait"] < now["p99_wait"]
    assert doubled["mean_wait"] is None  # 100 locks per second are all that the engine can do


def test_for_people(sqlite_cli: Cli, figures: str) -> None:
    ended = sqlite_cli(*ASKED, "--from", figures, "--held-p99", "40ms")
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:3] == [
        "50 locks per second on 1 name (all wanted alike)",
        "each held for 10.0 ms (p99 40.0 ms)",
        "on redis://localhost:6379/0",
    ]
    rows = [re.split(" {2,}", line) for line in lines]
    assert ["busiest name: in use", "52%", "104%", "208%"] in rows
    (waits,) = (row for row in rows if row[0] == "busiest name: mean wait")
    assert waits[2:] == ["no end", "no end"]
    bars = [line.count("█") for line in lines if "█" in line]
    assert bars == sorted(bars)
    assert bars[-1] == 40
    assert "  - From 96 locks per second on, 1.9 times as many as now, the queue of the" in lines


def test_a_chart(sqlite_cli: Cli, tmp_path: Path) -> None:
    chart = tmp_path / "wait.svg"
    assert sqlite_cli(*ASKED, "--pair", "1ms", "--chart", str(chart)).returncode == 0
    drawn = ElementTree.parse(chart).getroot()
    words = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"mean", "p99", "locks per second"} <= words


@only_in_soaks  # it is `fencelock bench`, whose output test_bench.py hands to `plan`
def test_an_engine_is_measured_now(sqlite_cli: Cli) -> None:
    found = planned(sqlite_cli, "--url", sqlite_cli.url, "--seconds", "1")
    assert found["engine"]["label"].startswith("sqlite:")
    assert 0 < found["engine"]["pair"] <= found["engine"]["pair_p99"]
    assert found["leases_per_process"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "say how fast the engine is: --from FILE"),
        (("--hand-off", "1ms"), "say how fast the engine is: --from FILE"),
        (("--pair", "fast"), "'fast' is not a duration: give seconds, or for example 200ms"),
        (("--pair", "0"), "--pair must be more than zero seconds, not 0"),
        (("--pair", "1ms", "--held-p99", "1s"), "must be 1 to 10 times its mean, not 100 times"),
        (("--pair", "1ms", "--names", "0"), "0 is not in the range"),
        (("--pair", "1ms", "--rate", "0"), "0.0 is not in the range"),
        (("--pair", "1ms", "--rate", "nan"), "'--rate': "),
        (("--pair", "1ms", "--zipf", "nan"), "'--zipf': "),
        (("--pair", "1ms", "--chart", "wait.png"), "the chart must have a name that ends in .svg"),
        (("--pair", "1ms", "--chart", "no/wait.svg"), "the folder 'no' does not exist"),
        (("--from", "none.json"), "'none.json': No such file or directory"),
        (("--from", "-"), "'<stdin>' does not have the figures of an engine"),
        (("--from", "-", "--url", "redis://a"), "given twice: with --from and with --url"),
        (("--url", "memory://"), "the locks of this engine exist in one process only"),
    ],
)
def test_what_is_refused(sqlite_cli: Cli, words: tuple[str, ...], message: str) -> None:
    ended = sqlite_cli(*ASKED, *words)
    assert ended.returncode == 64
    assert message in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("broken", ["[]", "{}", '{"figures": [{"key": 1}]}', "null", "\x00", "{"])
def test_a_file_that_is_something_else(sqlite_cli: Cli, broken: str) -> None:
    ended = sqlite_cli(*ASKED, "--from", "-", input=broken)
    assert ended.returncode == 64
    assert "does not have the figures of an engine" in ended.stderr


# --- the sentences


def figure(key: str, p50: float, per_second: float) -> Figure:
    return Figure(key, "", 9, p50, 2 * p50, per_second)


def test_a_benchmark_in_which_nobody_had_to_wait() -> None:
    seen = [figure("pair", 0.1, 1), figure("processes", 0.1, 5), figure("tasks", 0.1, 9)]
    speed = speed_of({each.key: each for each in [*seen, figure("renewals", 0.1, 3)]})
    assert speed == EngineSpeed(0.1, 0.2, 0.1, 9, 3)


SPEED = EngineSpeed(0.0005, 0.001, 0.001, 1000.0, 30_000.0)


@pytest.mark.parametrize(
    ("held", "per_second", "sentence"),
    [
        (0.0005, 1.0, "one statement of the storage"),
        (0.1, 8.0, "2 names instead of it would be enough"),
        (0.1, 30.0, "5 names instead of it would be enough"),
        (0.1, 9.5, "a job queue, with one worker for each name"),
        (700.0, 0.0001, "an election has terms"),
        (0.1, 1.0, "Nothing speaks against a lock."),
    ],
)
def test_when_a_lock_is_the_wrong_tool(held: float, per_second: float, sentence: str) -> None:
    model = Model(Names(1), Exponential(held), SPEED)
    assert any(sentence in line for line in instead(model, model.at(per_second)))


@pytest.mark.parametrize(
    ("per_second", "partitions", "sentence"),
    [
        (5.0, 1, "From 9.9 locks per second on, 2.0 times as many as now"),
        (20.0, 1, "20 callers per second come, and 9.9 can be served"),
        (5.0, 2, "overloaded from 1,000 locks per second on, with 2 partitions"),
        (5000.0, 1, "No number of partitions is enough"),
        (5.0, 1, "A ttl of 2.02 s is enough: 2 × (operation 1.00 s + latency 1.00 ms + drift)"),
        (5.0, 1, "10 callers queue up"),
        (5.0, 1, "no more than 10,000 leases. About 1.0 are held or waited for"),
    ],
)
def test_what_to_expect(per_second: float, partitions: int, sentence: str) -> None:
    model = Model(Names(1), Exponential(0.1), SPEED, partitions)
    lines = list(expectations(model, model.at(per_second), 1.0))
    assert any(sentence in line for line in lines), lines


def test_an_engine_that_is_overloaded() -> None:
    model = Model(Names(100_000), Exponential(0.1), SPEED)
    now = model.at(2000.0)
    assert now.waiting == math.inf
    lines = list(expectations(model, now, 1.0))
    assert any("overloaded from 1,000 locks" in line for line in lines)
    assert any("The engine is the reason" in line for line in lines)


def test_an_engine_that_is_busy_before_the_names_are(sqlite_cli: Cli) -> None:
    ended = sqlite_cli(
        *ASKED, "--pair", "300us", "--zipf", "--names", "100000", "--rate", "2000", "--held", "2ms",
        "--capacity", "1500", "--partitions", "4",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count(" per second  █") == 8


def test_the_page_shows_what_the_command_prints(sqlite_cli: Cli) -> None:
    page = (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8")
    (block,) = re.findall(
        r"^```console\n(\$ fencelock plan .*?)^```$", page, re.DOTALL | re.MULTILINE
    )
    command, _, shown = block.partition("\n")
    ended = sqlite_cli(*shlex.split(command.removeprefix("$ fencelock ")))
    assert ended.stdout == shown
