"""Stalls: a process and all its descendants stop, and then continue as before."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.soak.freezer import Freezer, GroupFreezer, SignalFreezer
from tests.waiting import eventually

TICKER = """
import os, sys, time
if os.fork() == 0:
    os.fork()
with open(sys.argv[1], "a", buffering=1) as file:
    while True:
        file.write(f"{os.getpid()}\\n")
        time.sleep(0.005)
"""
"""A process with a child and a grandchild. Each reports all the time that it runs."""


@pytest.fixture(params=[GroupFreezer, SignalFreezer])
def freezer(request: pytest.FixtureRequest) -> Iterator[Freezer]:
    if request.param is GroupFreezer and not GroupFreezer.available():
        pytest.skip("no control groups here")
    freezer: Freezer = request.param()
    yield freezer
    freezer.close()


def test_a_tree_stands_still_and_goes_on(freezer: Freezer, tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.touch()
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", TICKER, str(journal)],
        preexec_fn=lambda: freezer.adopt(os.getpid()),
    )
    try:
        eventually(lambda: len(set(journal.read_text().split())) == 3, "three processes")
        tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        freezer.freeze(process.pid)
        spent = _spent(tree)
        size = journal.stat().st_size
        with pytest.raises(AssertionError):
            eventually(lambda: journal.stat().st_size > size, "a sign of life", timeout=0.2)
        assert _spent(tree) == spent
        freezer.thaw()
        eventually(
            lambda: len(set(journal.read_text()[size:].split())) == 3, "all of them to go on"
        )
    finally:
        freezer.thaw()
        top = psutil.Process(process.pid)
        for one in [*top.children(recursive=True), top]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def _spent(tree: list[psutil.Process]) -> list[float]:
    return [process.cpu_times().user + process.cpu_times().system for process in tree]


def test_a_process_that_was_stopped_before_stays_stopped() -> None:
    freezer = SignalFreezer()
    with subprocess.Popen(["sleep", "600"]) as process:
        seen = psutil.Process(process.pid)
        seen.suspend()
        eventually(lambda: seen.status() == psutil.STATUS_STOPPED, "it to stop")
        freezer.freeze(process.pid)
        freezer.thaw()
        assert seen.status() == psutil.STATUS_STOPPED
        process.kill()
