"""scripts/setup.sh finds what it needs, whichever Python comes first in PATH."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

SETUP = Path(__file__).parent.parent / "scripts" / "setup.sh"


def bash(command: str) -> subprocess.CompletedProcess[str]:
    script = f"set -euo pipefail; source {SETUP}; {command}"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True)


def test_a_virtual_environment_without_pip(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True, with_pip=False)
    ours = tmp_path / "bin" / "python3"
    found = bash(f"find_pip {ours}")
    assert found.returncode == 0, found.stderr
    has_pip = subprocess.run([found.stdout.strip(), "-m", "pip", "--version"], capture_output=True)
    assert has_pip.returncode == 0, found.stdout
    assert found.stdout.strip() != str(ours)


def test_the_chosen_python() -> None:
    found = bash(f"python={sys.executable}; find_interpreter")
    assert (found.returncode, found.stdout) == (0, f"{sys.executable}\n")
    missing = bash("python=python3.99; build run")
    assert missing.returncode == 1
    assert missing.stderr == (
        "fencelock: cannot run python3.99; choose another with PYTHON=python3.x, or say where it is\n"
    )
