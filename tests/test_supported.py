"""Where Fencelock can't run, the import says so: on Pythons that are too old, and on Windows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fencelock

SOURCE = Path(fencelock.__file__).parents[1]

_OLD = [
    path
    for folder in (Path("/usr/bin"), *Path.home().glob(".pyenv/versions/*/bin"))
    for path in sorted(folder.glob("python[23].[0-9]*"))
    if path.name.removeprefix("python") in {"2.7", *(f"3.{minor}" for minor in range(4, 11))}
]
"""Real Pythons of this machine that are too old: often there is none."""


def last_line(python: Path | str, code: str) -> str:
    """How a program ends that this Python runs on our source."""
    # Nothing may be compiled into the source folder.
    environment = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.defpath}
    ended = subprocess.run(
        [str(python), "-c", code], env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == 1, ended.stdout
    return ended.stderr.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("pretence", "message"),
    [
        ("sys.platform = 'win32'", "Fencelock does not work on Windows: it needs a Unix"),
        (
            "sys.version_info = (3, 10, 9)",
            "Fencelock needs Python 3.11 or newer, and this is Python 3",
        ),
    ],
)
def test_what_is_missing_is_said_at_the_import(pretence: str, message: str) -> None:
    line = last_line(sys.executable, f"import sys; {pretence}; import fencelock")
    assert line.startswith(f"ImportError: {message}")


def test_really_old_pythons_say_it_too() -> None:
    for python in _OLD:
        line = last_line(python, "import fencelock")
        assert line.startswith("ImportError: Fencelock needs Python 3.11 or newer"), python
