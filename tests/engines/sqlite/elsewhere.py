"""Running a piece of code elsewhere: in a forked child, or where it may mount file systems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]
_BEFORE = """
import json, os, resource, subprocess, sys
import fencelock
folder = sys.argv[1]
def mount_tmpfs(size):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
"""
_AFTER = "\nprint(json.dumps(answer), flush=True)\nos._exit(0)\n"


def in_namespace(code: str, folder: Path) -> Any:
    """What the code leaves in `answer`, run as root of its own mount namespace with a `folder`."""
    inside = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system does not let us make a mount namespace")
    program = _BEFORE + textwrap.dedent(code) + _AFTER
    run = subprocess.run(
        [*inside, sys.executable, "-c", program, str(folder)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def in_fork(act: Callable[[], str], *, as_nobody: bool = False) -> str:
    """What the act returns in a forked child, with the rights of nobody if we are root."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        answer = "the child failed"
        try:
            if as_nobody and os.getuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            answer = act()
        except BaseException as error:
            answer = repr(error)
        finally:
            os.write(writing, answer.encode())
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return pipe.read()
