"""What the type checkers of users see: small programs, with `# error` on each line that must be reported.

Both checkers must report exactly these lines. `assert_type` in a program reports a type that is not exact.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"

Report = dict[tuple[str, int], str]
"""What a checker said, by program and line."""


def by_mypy(folder: Path) -> Report:
    # Not our own settings: a user has others, and the library is one of many that are installed.
    command = ["mypy", "--config-file=", "--strict", f"--cache-dir={folder}", "--output=json"]
    found = [json.loads(line) for line in output_of(*command, str(PROGRAMS)).splitlines()]
    return {
        (Path(each["file"]).name, each["line"]): each["message"]
        for each in found
        if each["severity"] == "error"
    }


def by_pyright(folder: Path) -> Report:
    settings = folder / "pyrightconfig.json"
    settings.write_text(json.dumps({"include": [str(PROGRAMS)], "typeCheckingMode": "strict"}))
    command = ["basedpyright", "--outputjson", "--level=error", f"--project={settings}"]
    found = json.loads(output_of(*command, f"--pythonpath={sys.executable}"))
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in found["generalDiagnostics"]
    }


def output_of(command: str, *words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", command, *words], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 1, (
        f"it finds errors, and does not fail:\n{ended.stdout}{ended.stderr}"
    )
    return ended.stdout


@pytest.mark.parametrize("check", [by_mypy, by_pyright])
def test_users_are_told_of_their_mistakes_and_of_nothing_else(
    check: Callable[[Path], Report], tmp_path: Path
) -> None:
    lines = {
        (program.name, number): line
        for program in PROGRAMS.glob("*.py")
        for number, line in enumerate(program.read_text().splitlines(), 1)
    }
    mistakes = {place: line for place, line in lines.items() if line.endswith("# error")}
    report = check(tmp_path)
    assert len(mistakes) > 50
    assert {place: report[place] for place in report.keys() - mistakes.keys()} == {}, "not mistakes"
    assert {place: lines[place] for place in mistakes.keys() - report.keys()} == {}, "not reported"
