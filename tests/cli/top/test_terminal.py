"""`fencelock top` in a real terminal of 80 × 24, with real holders and waiters."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import fencelock
from fencelock.core.ticket import Owner, Ticket
from fencelock.io.blocking import run
from fencelock.primitives.waiting import new_id
from tests.cli.conftest import Cli
from tests.cli.terminals import PROMPT, Emulator, Terminal, on_a_terminal, shell
from tests.cli.test_listing import HEAD
from tests.cli.top.crowd import Crowd
from tests.servers import RedisFactory
from tests.waiting import eventually

ENTERS, LEAVES = "\x1b[?1049h", "\x1b[?1049l"
UP, DOWN, ESCAPE, ENTER, CTRL_C, CTRL_Z = "\x1b[A", "\x1b[B", "\x1b", "\r", "\x03", "\x1a"


BUG = """
import sys
from fencelock.cli.main import main
from fencelock.cli.top.poller import Poller

Poller._poll = lambda self, began: 1 / 0
sys.argv[1:] = ["top"]
main()
"""


@pytest.fixture
def prefix() -> str:
    """The beginning of the names of one test: tests share a Redis."""
    return uuid4().hex[:6]


@pytest.fixture
def crowd(url: str, prefix: str) -> Iterator[Crowd]:
    with Crowd(url) as crowd:
        yield crowd


def start(cli: Cli, prefix: str, *words: str) -> Emulator:
    return Emulator(cli, "top", "--pattern", f"{prefix}*", "--interval", "0.3", *words)


def names(terminal: Emulator) -> list[str]:
    """The names in the table, from top to bottom."""
    below = terminal.lines[next(n for n, line in enumerate(terminal.lines) if "HOLDER" in line) :]
    return [line.split()[0].partition("-")[2] for line in below[1:-1] if line]


def see_names(terminal: Emulator, *expected: str) -> None:
    terminal.until(
        lambda it: "HOLDER" in it.picture and names(it) == list(expected), f"{expected} in order"
    )


def test_sort_filter_and_open(cli: Cli, crowd: Crowd, prefix: str) -> None:
    busy, old, new = f"{prefix}-busy", f"{prefix}-old", f"{prefix}-a-new-one"
    crowd.hold(old, "the oldest")
    crowd.has_held(old, 1.0)
    crowd.hold(busy, "the busy")
    crowd.has_held(busy, 1.0)
    crowd.hold(new)
    crowd.wait(busy, "first", "second", "third")
    with start(cli, prefix) as terminal:
        see_names(terminal, "busy", "old", "a-new-one")
        row = next(line for line in terminal.lines if line.startswith(busy))
        tail = str(crowd.fence(busy))[-7:]
        assert re.search(rf"the busy.* …{tail} +[\d.]+s █████ +\w+ +3$", row), row
        terminal.type("s")
        see_names(terminal, "old", "busy", "a-new-one")
        terminal.see("sorted by held")
        terminal.type("s")
        see_names(terminal, "a-new-one", "busy", "old")

        terminal.type("/-ol")
        see_names(terminal, "old")
        terminal.type(ESCAPE)
        see_names(terminal, "a-new-one", "busy", "old")
        terminal.type(f"/{prefix}-[ab]*{ENTER}")
        see_names(terminal, "a-new-one", "busy")
        terminal.see("2 names")

        terminal.type(DOWN + ENTER)
        terminal.see("third")
        queue = [line.split()[:2] for line in terminal.lines if f"(pid {os.getpid()}" in line]
        assert queue == [["holds", "the"], ["1", "first"], ["2", "second"], ["3", "third"]]
        assert f"{crowd.fence(busy)}" in terminal.picture
        crowd.release(busy)
        terminal.until(
            lambda it: re.search(r"^holds +first .*\n1 +second ", it.picture, re.MULTILINE),
            "the next holder",
        )
        terminal.see("hand-offs seen")
        terminal.type("?")
        terminal.see("in truth it may be more")
        terminal.type("x" + ESCAPE)
        see_names(terminal, "a-new-one", "busy")
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.restored


def test_breaking(cli: Cli, crowd: Crowd, prefix: str) -> None:
    name = f"{prefix}-x"
    fence = crowd.hold(name, "the first").fence
    with start(cli, prefix) as terminal:
        see_names(terminal, "x")
        for answer in ("n\r", "\r", "y\r", "yes" + ESCAPE):
            terminal.type("b")
            terminal.see(f"Break fence {fence}?")
            terminal.see(f"held by the first (pid {os.getpid()} on")
            terminal.type(answer)
            terminal.see(f"'{name}' was not broken")
            assert crowd.holders(name) == ["the first"]
            terminal.type(UP)
            terminal.not_see("was not broken")

        terminal.type("byes\r")  # typed at once, so nobody has read the question
        terminal.see(f"Break fence {fence}?")
        crowd.release(name)
        crowd.hold(name, "the next")
        terminal.type("yes\r")
        terminal.see("has another holder now: it was not broken")
        assert crowd.holders(name) == ["the next"]

        terminal.see("the next")
        crowd.wait(name, "the last")
        terminal.type("b")
        terminal.see("held by the next")
        terminal.type("yes\r")
        terminal.see(f"broken: '{name}' was held by the next")
        eventually(lambda: crowd.holders(name) == ["the last"], "the next holder")
        terminal.see("! abandoned")
        terminal.see("the last")

        terminal.type("b")
        terminal.see("held by the last")
        crowd.release(name)
        terminal.type("yes\r")
        terminal.see(f"nobody holds '{name}' any more")
        terminal.see("Nothing is held or waited for.")


def test_every_size(sqlite_cli: Cli, prefix: str) -> None:
    with Crowd(sqlite_cli.url) as crowd:
        for number in range(30):
            crowd.hold(f"{prefix}-{number:02d}")
        with start(sqlite_cli, prefix, "--sort", "name") as terminal:
            see_names(terminal, *(f"{number:02d}" for number in range(20)))
            terminal.resize(200, 50)
            see_names(terminal, *(f"{number:02d}" for number in range(30)))
            terminal.resize(40, 10)
            see_names(terminal, *(f"{number:02d}" for number in range(6)))
            terminal.resize(20, 3)
            terminal.until(lambda it: it.lines[1].startswith(f"{prefix}-00 "), "one row")
            terminal.resize(1, 1)
            terminal.see("…")
            terminal.resize(80, 24)
            terminal.type("G")  # the end
            see_names(terminal, *(f"{number:02d}" for number in range(10, 30)))
            terminal.resize(80, 12)
            see_names(terminal, *(f"{number:02d}" for number in range(22, 30)))


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("q", 0),
        (CTRL_C, 130),
        (signal.SIGTERM, 143),
        (signal.SIGHUP, 129),
    ],
)
def test_it_leaves_the_terminal_as_it_was(
    sqlite_cli: Cli, prefix: str, ending: str | signal.Signals, code: int
) -> None:
    with start(sqlite_cli, prefix) as terminal:
        terminal.see("Nothing is held or waited for.")
        assert not terminal.restored
        if isinstance(ending, str):
            terminal.type(ending)
        else:
            os.kill(terminal.pid, ending)
        assert terminal.ended() == code
        assert terminal.restored


def test_ctrl_z_and_back(sqlite_cli: Cli, tmp_path: Path) -> None:
    with shell(sqlite_cli, tmp_path) as terminal:
        terminal.type("stty -g; fencelock top; stty -g\n")
        before = terminal.expect("\x1b")
        settings = re.findall(r"^[0-9a-f:]{20,}$", before, re.MULTILINE)[-1]
        terminal.expect("Nothing is held or waited for.")
        for _ in range(2):
            terminal.type(CTRL_Z)
            terminal.expect(LEAVES)
            terminal.expect("Stopped")
            terminal.expect(PROMPT)
            terminal.type("fg\n")
            terminal.expect(ENTERS)
            terminal.expect("Nothing is held or waited for.")
        terminal.type("q")
        terminal.expect(LEAVES)
        terminal.expect(PROMPT)
        terminal.type("stty -g\n")
        terminal.expect(settings)


def test_the_terminal_is_closed(sqlite_cli: Cli) -> None:
    with Emulator(sqlite_cli, "top") as terminal:
        terminal.see("Nothing is held or waited for.")
        terminal.hang_up()
        assert terminal.exit_code() == 128 + signal.SIGHUP


def test_stopped_and_continued(sqlite_cli: Cli) -> None:
    """Nobody can see a SIGSTOP coming. What others have drawn meanwhile is drawn over."""
    with Emulator(sqlite_cli, "top") as terminal:
        terminal.see("Nothing is held or waited for.")
        process = psutil.Process(terminal.pid)
        process.suspend()
        eventually(lambda: process.status() == psutil.STATUS_STOPPED, "it to stop")
        terminal.erase()
        process.resume()
        terminal.see("Nothing is held or waited for.")


def test_a_bug_leaves_the_terminal_as_it_was(sqlite_cli: Cli) -> None:
    with Terminal(sqlite_cli, sys.executable, "-c", BUG) as terminal:
        terminal.expect(ENTERS)
        terminal.expect(LEAVES)
        assert "this is a bug in fencelock, please report it: ZeroDivisionError" in terminal.rest()
        assert terminal.set_up_as_before


def test_an_engine_that_goes_away_and_comes_back(
    sqlite_cli: Cli, redis_server: RedisFactory
) -> None:
    server = redis_server(requirepass="geheim", appendonly="yes", appendfsync="always")
    sqlite_cli.environment["FENCELOCK_URL"] = f"redis://:geheim@{server.address}"
    with Crowd(sqlite_cli.environment["FENCELOCK_URL"]) as crowd:
        crowd.hold("x", "the holder")
        with Emulator(sqlite_cli, "top", "--interval", "0.3") as terminal:
            terminal.see("the holder")
            server.freeze()
            terminal.see("STALE: what you see is from")
            terminal.see("the holder")
            terminal.type("\r")  # keys work meanwhile
            terminal.see("newest fence")
            terminal.type(ESCAPE)
            terminal.see("sorted by waiting")
            server.thaw()
            terminal.not_see("STALE")

            server.kill()
            terminal.see("STALE")
            terminal.until(
                lambda it: f"can't connect to {server.address}" in " ".join(it.lines), "the reason"
            )
            terminal.until(lambda it: re.search(r"[3-9] s ago", it.picture), "its age")
            assert "geheim" not in terminal.picture
            server.start()
            terminal.not_see("STALE")
            terminal.see("the holder")

            server.freeze()
            terminal.see("STALE")
            terminal.type("q")  # nobody waits for the engine
            assert terminal.ended() == 0
            assert terminal.restored
            server.thaw()


def test_an_engine_that_is_not_there_yet(sqlite_cli: Cli, redis_server: RedisFactory) -> None:
    server = redis_server()
    server.kill()
    sqlite_cli.environment["FENCELOCK_URL"] = server.url
    with Emulator(sqlite_cli, "top") as terminal:
        terminal.see("NO ANSWER YET")
        server.start()
        terminal.see("Nothing is held or waited for.")


def test_without_colour(sqlite_cli: Cli) -> None:
    sqlite_cli.environment["NO_COLOR"] = "1"
    with Crowd(sqlite_cli.url) as crowd, Emulator(sqlite_cli, "top") as terminal:
        crowd.hold("x")
        crowd.wait("x", "second")
        terminal.until(lambda it: re.search(r"^x .* 1$", it.picture, re.MULTILINE), "a waiter")
        assert terminal.colours == {"default"}
        assert terminal.reversed_lines == [3]


def test_hostile_text(sqlite_cli: Cli) -> None:
    """Names and owners come from other processes, which may not use our client."""
    names = ("[red]a[/red]", "b", "x" * 500, "名" * 170)
    owner = Owner("ho\x1b[2Jst\x9b", 1, "\x1b[31m\r\n\a\u202e" + "漢" * 200)
    with fencelock.Client(sqlite_cli.url) as client:
        for name in names:
            ticket = Ticket(name, new_id(), 600.0, owner)
            run(client._context.engine.enter(ticket, if_free=True, timeout=5))
        with Emulator(sqlite_cli, "top", "--sort", "name") as terminal:
            terminal.see("4 names")
            rows = terminal.lines[3:7]
            assert [row[:2] for row in rows] == ["[r", "b ", "xx", "名名"]
            assert "?[31m????漢" in rows[0]
            assert terminal.lines[0].startswith("fencelock top")
            terminal.type("Gk\r")
            terminal.see("x" * 80)
            terminal.type("b")
            terminal.see("Break fence")
            assert terminal.colours <= {"default", "red"}


def test_not_on_a_terminal(sqlite_cli: Cli) -> None:
    with Crowd(sqlite_cli.url) as crowd:
        crowd.hold("held")
        crowd.hold("crowded")
        crowd.wait("crowded", "second")
        for words in ([], ["--once"]):
            ended = sqlite_cli("top", *words)
            assert (ended.returncode, ended.stderr) == (0, "")
            head, *rows = ended.stdout.splitlines()
            assert re.split("  +", head) == HEAD
            assert [row.split()[0] for row in rows] == ["crowded", "held"]
        rows = sqlite_cli("top", "--sort", "held").stdout.splitlines()[1:]
        assert [row.split()[0] for row in rows] == ["held", "crowded"]
        shown = on_a_terminal(sqlite_cli, "top", "--once")
        assert shown.index("crowded") < shown.index("held ")
        assert ENTERS not in shown
