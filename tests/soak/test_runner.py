"""A soak must be able to fail: it reports and counts failures and hangs, and says how to repeat them."""

from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.soak import __main__ as command
from tests.soak import runner
from tests.soak.items import ENGINES, Item, Result, Simulation, Soak, StalledSuite, Suite, items
from tests.soak.runner import Row, Runner, table


@dataclass(frozen=True)
class Program(Soak):
    """An item that runs a line of Python."""

    line: str = ""

    def command(self, seconds: float, seed: int) -> list[str]:
        return [sys.executable, "-S", "-c", self.line]


GOOD = Program("good", line="print('fine')")
BAD = Program("bad", line="raise SystemExit('two held it')")


@pytest.fixture(autouse=True)
def _logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runner, "LOGS", tmp_path / "logs")


def rows_of(*chosen: Item) -> list[Row]:
    return Runner(seed=1).run(chosen, seconds=0.0)


def test_a_failure_is_counted_kept_and_can_be_repeated() -> None:
    good, bad = rows_of(GOOD, BAD)
    assert (good.runs, good.failures) == (1, [])
    ((what, again, log),) = bad.failures
    assert what == "two held it"
    assert log.read_text() == "two held it\n"
    done = subprocess.run(shlex.split(again), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "two held it\n")


def test_the_table_names_what_failed_and_how_to_repeat_it() -> None:
    lines = table(rows_of(GOOD, BAD)).splitlines()
    assert [line.split()[:3] for line in lines[:3]] == [
        ["what", "runs", "failures"],
        ["good", "1", "0"],
        ["bad", "1", "1"],
    ]
    assert "FAILED bad: two held it" in lines
    assert any(line.startswith("  repeat: env FENCELOCK_SOAK=1 ") for line in lines)


@pytest.mark.parametrize(("chosen", "status"), [(GOOD, 0), (BAD, 1)])
def test_the_command_ends_with_1_if_something_failed(
    monkeypatch: pytest.MonkeyPatch, chosen: Item, status: int
) -> None:
    monkeypatch.setattr(command, "items", lambda engines: [chosen])
    assert command.main(["--minutes", "0"]) == status


def test_an_item_that_hangs_is_killed_and_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(runner, "WORTHWHILE_SECONDS", 0.1)
    (row,) = rows_of(Program("hangs", line="import time; time.sleep(600)"))
    assert [what for what, _, _ in row.failures] == ["hung for 0 s"]


def test_an_item_that_runs_nothing_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "result", lambda *_: Result(0, []))
    (row,) = rows_of(GOOD)
    assert [what for what, _, _ in row.failures] == ["nothing was run"]


def test_an_item_is_run_again_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "WORTHWHILE_SECONDS", 0.0)
    (row,) = Runner(seed=1).run([GOOD], seconds=0.3)
    assert row.runs > 1


def test_stalled_tests_are_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.soak import freezer

    monkeypatch.setattr(freezer, "PEACE_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(freezer, "STALL_SECONDS", (0.01, 0.02))
    (row,) = Runner(stalling=True, seed=1).run(
        [Program("works", line="import time; time.sleep(1)")], 0.0
    )
    assert row.stalls
    assert not row.failures


# --- how items read the output


def test_a_simulation_is_repeated_by_its_seed() -> None:
    item = Simulation("simulation", module="fencelock.torture.simulate", per_second=2)
    assert item.command(3.0, 70)[-2:] == ["--seeds", "70-75"]
    said = "seed 72: 1 violations\n  fences_grow: no\nreplay: …\n6 schedules in 0.1 s, 1 with violations\n"
    runs, ((what, again),) = item.result(said, 1, 3.0, 70)
    assert (runs, what) == (6, "seed 72")
    assert again.endswith("-m fencelock.torture.simulate --seed 72 --trace")


@pytest.mark.parametrize("item", [item for item in items([]) if isinstance(item, Simulation)])
def test_schedules_are_counted(item: Simulation) -> None:
    """Checks the patterns against the real output of the simulations."""
    said = subprocess.run(
        [sys.executable, "-m", item.module, "--seeds", "1-2"], capture_output=True, text=True
    )
    assert item.result(said.stdout, said.returncode, 3.0, 1) == Result(2, [])


def test_tests_are_repeated_one_by_one() -> None:
    said = (
        "FAILED tests/test_x.py::test_y[a - b] - AssertionError: no\n"
        "ERROR tests/test_z.py\n1 failed, 3 passed, 1 error in 4.00s\n"
    )
    result = Suite("some", hypothesis=True).result(said, 1, 3.0, 9)
    assert result.runs == 4
    assert [what for what, _ in result.failures] == [
        "tests/test_x.py::test_y[a - b]",
        "tests/test_z.py",
    ]
    assert result.failures[1][1].endswith(" --hypothesis-seed=9 tests/test_z.py")


def test_what_failed_under_stalls_is_repeated_under_stalls() -> None:
    item = StalledSuite("stalled", keyword="redis", engines=("redis",))
    ((_, again),) = item.result("FAILED tests/x.py::y\n1 failed", 1, 3.0, 9).failures
    assert again == "./soak --stall --minutes 2.0 --engine redis --seed 9 -- tests/x.py::y"


@pytest.mark.parametrize("item", [Soak("a"), Simulation("b"), Suite("c")])
def test_an_end_without_explanation_is_a_failure(item: Item) -> None:
    result: Result = item.result("Segmentation fault\n", 139, 3.0, 9)
    assert [what for what, _ in result.failures] == ["Segmentation fault"]


# --- which items run


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_is_soaked(engine: str) -> None:
    chosen = items([engine])
    assert {item.engine for item in chosen} == {engine}
    assert len(chosen) < len(items([]))


def test_every_file_that_is_soaked_is_there() -> None:
    root = Path(__file__).parents[2]
    paths = {path for item in items([]) if isinstance(item, Suite) for path in item.paths}
    assert [path for path in paths if not (root / path).exists()] == []
    modules = [item.module for item in items([]) if isinstance(item, Soak)]
    assert [one for one in modules if not (root / f"{one.replace('.', '/')}.py").exists()] == []
