"""Processes that are forked instead of started: for a test they behave like any other."""

from __future__ import annotations

import os
import signal
import subprocess

import psutil
import pytest

from tests.spawning import Spawned, run


def test_what_it_says_and_how_it_ends() -> None:
    ended = run("fencelock", "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("fencelock ")
    ended = run("fencelock", "frob")
    assert (ended.returncode, ended.stdout) == (64, "")
    assert ended.stderr.startswith("fencelock: No such command")


def test_it_has_its_own_surroundings_and_input() -> None:
    ended = run("json.tool", input='{"a": 1}')
    assert (ended.returncode, ended.stdout) == (0, '{\n    "a": 1\n}\n')
    ended = run("site", "--user-base", environment={"PYTHONUSERBASE": "/somewhere"})
    assert ended.stdout == "/somewhere\n"


def test_a_program_that_fails() -> None:
    ended = run("no.such.module")
    assert ended.returncode == 1
    assert "No module named" in ended.stderr


def test_it_can_be_stopped_and_killed() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w"):
        process = Spawned("json.tool", stdin=stdin)
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert psutil.pid_exists(process.pid)
        process.kill()
        assert process.wait(60) == -signal.SIGKILL
        process.kill()  # does nothing: it has ended already
    assert process.poll() == -signal.SIGKILL
