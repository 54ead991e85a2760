"""Signals reach the command and all that belongs to it, and end the waiting for the lock."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

import fencelock
from fencelock.io.clock import now
from tests.cli import subject
from tests.cli.conftest import WAITS, Cli, Started, gone, nothing_left, waiting
from tests.waiting import eventually

SIGNALS = [getattr(signal, each) for each in subject.SIGNALS]

ROLES = ("parent", "child")


def start_subject(
    cli: Cli, name: str, folder: Path, *words: str, deaf: Sequence[str] = ()
) -> Started:
    """Run the subject under the lock, and wait until it runs."""
    command = [sys.executable, subject.__file__, str(folder), *deaf]
    started = cli.start("run", name, *words, "--", *command)
    assert started.line() == "started"
    return started


def test_signals_are_passed_on_to_the_group(sqlite_cli: Cli, tmp_path: Path) -> None:
    started = start_subject(sqlite_cli, "x", tmp_path)
    family = started.family()
    for each in SIGNALS:
        if each != signal.SIGTERM:
            started.signal(each)
            assert sorted([started.line(), started.line()]) == [
                f"child {each.name}",
                f"parent {each.name}",
            ]
    started.signal(signal.SIGTERM)
    assert sorted([started.line(), started.line()]) == ["child SIGTERM", "parent SIGTERM"]
    assert started.wait() == 3, "the code with which the command ended"
    assert gone(family)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_that_ends_the_command(sqlite_cli: Cli, signum: signal.Signals) -> None:
    started = sqlite_cli.start("run", "x", "--", *WAITS)
    assert started.line() == "started"
    started.signal(signum)
    assert started.wait() == 128 + signum
    assert started.errors() == ""


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_signal_while_waiting(
    cli: Cli, client: fencelock.Client, name: str, signum: signal.Signals
) -> None:
    with client.lock(name):
        started = cli.start("run", name, "--", "echo", "ran")
        waiting(client, name, 1)
        started.signal(signum)
        assert started.wait() == 128 + signum
        assert client.inspect(name).waiting == 0
    assert started.process.communicate() == ("", "")
    assert nothing_left(client, name)


def test_under_nohup(cli: Cli, client: fencelock.Client, name: str) -> None:
    """It ignores SIGHUP, while it waits and while the command runs, and so does the command."""
    with client.lock(name):
        command = ("sh", "-c", "kill -HUP $$; echo alive; read _; exit 4")
        started = cli.start("run", name, "--", *command, under=["nohup"])
        waiting(client, name, 1)
        started.signal(signal.SIGHUP)
    assert started.line() == "alive"
    started.signal(signal.SIGHUP)
    started.hang_up()
    assert started.wait() == 4


def test_started_by_one_that_ignores_its_children(sqlite_cli: Cli) -> None:
    deaf = ("env", "--ignore-signal=CHLD")
    started = sqlite_cli.start("run", "x", "--", "sh", "-c", "exit 6", under=deaf)
    assert (started.wait(), started.errors()) == (6, "")


@pytest.mark.parametrize("deaf", [(), ("child",), ROLES])
def test_the_wrapper_is_killed(sqlite_cli: Cli, tmp_path: Path, deaf: Sequence[str]) -> None:
    """Nobody renews the lease any more: the command and its children end at once, not with it."""
    started = start_subject(sqlite_cli, "x", tmp_path, "--ttl", "600", "--grace", "1", deaf=deaf)
    family = started.family()
    started.signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    assert sorted([started.line(), started.line()]) == ["child SIGTERM", "parent SIGTERM"]
    eventually(lambda: gone(family), "the command's end")


@pytest.mark.slow
def test_the_wrapper_is_stopped(sqlite_cli: Cli, tmp_path: Path) -> None:
    """It can't renew the lease, nor see that it ends; the command is dead before it does."""
    started = start_subject(sqlite_cli, "x", tmp_path, "--ttl", "4", "--grace", "0.5", deaf=ROLES)
    family = started.family()
    started.signal(signal.SIGSTOP)
    stopped_at = now()
    assert sorted([started.line(), started.line()]) == ["child SIGTERM", "parent SIGTERM"]
    eventually(lambda: gone(family), "the command's end")
    assert subject.last_beat(tmp_path) < stopped_at + 4
    started.signal(signal.SIGCONT)
    assert started.wait() == 119


def test_the_supervisor_is_killed(
    cli: Cli, client: fencelock.Client, name: str, tmp_path: Path
) -> None:
    """The command and its children don't go on, and the lock is given back."""
    started = start_subject(cli, name, tmp_path)
    family = started.family()
    (supervisor,) = psutil.Process(started.pid).children()
    supervisor.kill()
    assert started.wait() == 119
    assert "the command's supervisor was killed" in started.errors()
    eventually(lambda: gone(family), "the command's end")
    assert nothing_left(client, name)
