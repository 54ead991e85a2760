"""At a terminal, a command under `fencelock run` behaves like any other job of the shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.cli.conftest import Cli
from tests.cli.terminals import PROMPT, Terminal, shell
from tests.waiting import eventually

CTRL_C, CTRL_Z = "\x03", "\x1a"

# Not a shell that starts `sleep`: a signal in the moment between the two can pass both by. The word
# is put together by the program, so that it is not the echo of the command line that one sees.
SLEEPS = f"""{sys.executable} -c 'import time; print("sta" "rted", flush=True); time.sleep(60)'"""
READS = """sh -c 'echo sta"rted"; read a; echo "<$a>"; read b; echo "<$b>"'"""


@pytest.fixture
def terminal(sqlite_cli: Cli, tmp_path: Path) -> Iterator[Terminal]:
    with shell(sqlite_cli, tmp_path) as terminal:
        yield terminal


def test_the_command_reads_from_the_terminal(terminal: Terminal) -> None:
    terminal.type(f"fencelock run x -- {READS}\n")
    terminal.expect("started")
    terminal.type("one\n")
    terminal.expect("<one>")
    terminal.type("two\n")
    terminal.expect("<two>")
    expect_code(terminal, 0)


@pytest.mark.parametrize("command", [SLEEPS, READS], ids=["sleeps", "reads"])
def test_ctrl_c(terminal: Terminal, command: str) -> None:
    terminal.type(f"fencelock run x -- {command}\n")
    terminal.expect("started")
    terminal.type(CTRL_C)
    expect_code(terminal, 130)


def test_ctrl_z_and_back(terminal: Terminal, sqlite_cli: Cli) -> None:
    terminal.type(f"fencelock run x -- {SLEEPS}\n")
    terminal.expect("started")
    terminal.type(CTRL_Z)
    expect_resumed(terminal)
    with fencelock.Client(sqlite_cli.url) as client:
        assert client.inspect("x").holders, "stopping for a moment is not losing"
    terminal.type(CTRL_C)
    expect_code(terminal, 130)


def test_ctrl_z_and_back_for_one_that_reads(terminal: Terminal) -> None:
    terminal.type(f"fencelock run x -- {READS}\n")
    terminal.expect("started")
    terminal.type("one\n")
    terminal.expect("<one>")
    terminal.type(CTRL_Z)
    expect_resumed(terminal)
    terminal.type("two\n")
    terminal.expect("<two>")
    expect_code(terminal, 0)


def test_one_that_stays_stopped_loses_its_lease(terminal: Terminal) -> None:
    terminal.type(f"fencelock run x --ttl 2 -- {SLEEPS}\n")
    terminal.expect("started")
    terminal.type(CTRL_Z)
    terminal.expect("Stopped")
    terminal.expect(PROMPT)
    terminal.type("fencelock run x -- echo 'the' 'next'\n")
    terminal.expect("the next")
    terminal.type("fg\n")
    terminal.expect("stopping the command")
    expect_code(terminal, 119)


def test_in_the_background(terminal: Terminal) -> None:
    terminal.type(f"fencelock run x -- {READS} &\n")
    terminal.expect("started")
    terminal.type("wait -n; jobs\n")
    terminal.expect("Stopped")
    terminal.type("fg\n")
    terminal.expect("read b")
    terminal.type("one\n")
    terminal.expect("<one>")
    terminal.type("two\n")
    terminal.expect("<two>")


def test_a_pager_at_the_end_of_the_pipe_keeps_the_terminal(terminal: Terminal) -> None:
    terminal.type(
        "fencelock run x -- seq 7 9 | sh -c 'cat; read key < /dev/tty; echo \"<$key>\"'\n"
    )
    terminal.expect("8")
    terminal.type("q\n")
    terminal.expect("<q>")


def expect_resumed(terminal: Terminal) -> None:
    terminal.expect("Stopped")
    terminal.expect(PROMPT)
    shell = terminal.foreground()
    terminal.type("fg\n")
    terminal.expect("fencelock run x")
    # The shell says so first and hands over the terminal then: what is typed before is its own.
    eventually(lambda: terminal.foreground() != shell, "the command to have the terminal")


def expect_code(terminal: Terminal, code: int) -> None:
    terminal.expect(PROMPT)
    terminal.type("echo code $?\n")
    terminal.expect(f"code {code}\n")
