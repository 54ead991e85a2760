"""systemd understands the unit in ops/, and finds little to complain about."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNIT = Path(__file__).parent.parent.parent / "ops" / "systemd" / "fencelock.service"
EXPOSURE = 15
"""The highest exposure, in tenths, as `systemd-analyze security` counts it: 0 is best, 100 is worst."""

pytestmark = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze, of the package systemd"
)


def analyze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=60
    )


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    # It insists that the program exists.
    unit.write_text(UNIT.read_text().replace("/opt/fencelock/bin/fencelock", "/bin/true"))
    done = analyze("verify", "--man=no", unit)
    assert done.returncode == 0, done.stderr
    about_us = [line for line in done.stderr.splitlines() if "fencelock" in line]
    assert about_us == []


def test_the_unit_is_hardened() -> None:
    if "--offline" not in analyze("--help").stdout:
        pytest.skip("this systemd-analyze is too old for units that are not loaded")
    done = analyze("security", "--offline=yes", "--no-pager", f"--threshold={EXPOSURE}", UNIT)
    assert done.returncode == 0, done.stdout + done.stderr
