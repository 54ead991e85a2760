"""The demo: it runs, it tidies up, and its checks can fail."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from fencelock.cli.demo.history import History, Worker, check_all
from fencelock.cli.demo.stale_write import StaleWrite
from fencelock.cli.demo.view import picture
from fencelock.core.ticket import Holder, Inspection, Owner, Waiter
from fencelock.io.clock import now
from tests.cli.conftest import Cli, Started, gone
from tests.cli.terminals import on_a_terminal
from tests.waiting import eventually

EMPTY = Inspection("demo", (), (), 0, 0, False)


@pytest.mark.slow
def test_in_a_pipe(sqlite_cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    ended = sqlite_cli("demo", "--seconds", "5", TMPDIR=str(tmp_path / "temporary"))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "\x1b" not in ended.stdout
    for text in (
        "is stopped by us (SIGSTOP)",
        "is continued by us (SIGCONT)",
        "LeaseLost, starts over",
        "is killed by us (SIGKILL)",
        "while holding:",
        "later from lease.check() that its lease was lost",
        "without a guard, the account then holds 101: 10 are lost",
        "with a guard, it holds 110: the guard refused fence",
    ):
        assert text in ended.stdout
    assert ended.stdout.endswith("\nEvery invariant held.\n")
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.slow
def test_on_a_terminal(sqlite_cli: Cli) -> None:
    shown = on_a_terminal(sqlite_cli, "demo", "--seconds", "5")
    assert "█ holds  · waits  ░ stopped  ✗ dead" in shown
    assert "Every invariant held." in shown


def start_demo(cli: Cli, tmp_path: Path, under: Sequence[str] = ()) -> Started:
    cli.environment["TMPDIR"] = str(tmp_path / "temporary")
    (tmp_path / "temporary").mkdir()
    started = cli.start("demo", under=under)
    assert "enters" in started.line()
    assert len(started.family()) == 5
    return started


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_can_be_interrupted(sqlite_cli: Cli, tmp_path: Path, signum: signal.Signals) -> None:
    started = start_demo(sqlite_cli, tmp_path)
    family = started.family()
    started.signal(signum)
    assert started.wait() == 128 + signum
    assert gone(family)
    assert not list((tmp_path / "temporary").iterdir())
    assert "Traceback" not in started.errors()


def test_under_nohup(sqlite_cli: Cli, tmp_path: Path) -> None:
    started = start_demo(sqlite_cli, tmp_path, under=["nohup"])
    started.signal(signal.SIGHUP)
    while "is stopped by us" not in started.line():  # it goes on
        pass
    started.signal(signal.SIGTERM)
    assert started.wait() == 128 + signal.SIGTERM


def test_no_worker_outlives_a_demo_that_was_killed(sqlite_cli: Cli, tmp_path: Path) -> None:
    started = start_demo(sqlite_cli, tmp_path)
    family = started.family()
    while "is stopped by us" not in started.line():  # it goes on when all of them are ready
        pass
    family[0].suspend()  # not even one that is stopped
    started.signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    eventually(lambda: gone(family), "the workers' end")


class Story:
    """A short history in which everything goes well. Tests change it so that a check fails."""

    def __init__(self) -> None:
        self.history = History(started=0.0)
        for name in ("ada", "bob"):
            self.history.workers[name] = Worker(name, pid=1)
        self.leftover = EMPTY

    def turn(self, who: str, fence: int, entered: float, left: float | None) -> None:
        self.history.record(who, "asks", at=entered - 0.5)
        faults = self.history.faults()
        abandoned = bool(faults) and self.history.next_after(faults[-1]) is None
        self.history.record(who, "enters", at=entered, fence=fence, abandoned=abandoned)
        if left is not None:
            self.history.record(who, "leaves", at=left, fence=fence)

    def fault(self, kind: str, who: str, fence: int, at: float) -> None:
        self.history.hit(kind, self.history.workers[who], fence, at)

    def lost(self, who: str, fence: int, sure: float, at: float) -> None:
        self.history.record(who, "lost", at=at, fence=fence, sure=sure, reason="expired")

    def run(self) -> Story:
        self.turn("ada", 10, 1.0, 2.0)
        self.turn("bob", 11, 2.1, None)
        self.fault("stopped", "bob", 11, 2.2)
        self.turn("ada", 12, 4.0, 5.0)
        self.lost("bob", 11, 2.2, 6.0)
        self.turn("bob", 13, 6.1, 7.0)
        return self

    def broken(self) -> list[str]:
        return [what for what, how in check_all(self.history, self.leftover).items() if how]


def test_the_checks_of_the_stale_write_can_fail() -> None:
    good = StaleWrite(plain=101, guarded=110, refused="refused")
    assert list(good.checks().values()) == ["", ""]
    bad = StaleWrite(plain=101, guarded=101, refused="")
    assert all(bad.checks().values())


def test_all_is_well() -> None:
    assert Story().run().broken() == []


def _fence_falls(story: Story) -> None:
    story.run().turn("ada", 13, 8.0, 9.0)


def _overlap(story: Story) -> None:
    story.run().turn("ada", 14, 6.9, 9.0)


def _never_leaves(story: Story) -> None:
    story.run().turn("ada", 14, 8.0, None)
    story.turn("bob", 15, 9.0, 9.5)


def _never_told(story: Story) -> None:
    story.turn("ada", 11, 1.0, None)
    story.fault("stopped", "ada", 11, 2.2)
    story.turn("bob", 12, 4.0, 5.0)
    story.turn("ada", 13, 5.1, 6.0)


def _no_recovery(story: Story) -> None:
    story.run().turn("ada", 14, 8.0, None)
    story.fault("killed", "ada", 14, 8.1)
    story.turn("bob", 15, 8.0, 8.05)  # not after the fault, so nobody's


def _not_marked_as_abandoned(story: Story) -> None:
    story.run()
    for turn in story.history.turns:
        turn.abandoned = False


def _starvation(story: Story) -> None:
    story.run().history.turns.pop()


def _no_turns(story: Story) -> None:
    pass


def _left_behind(story: Story) -> None:
    story.run().leftover = EMPTY._replace(waiting=1)


def _still_held(story: Story) -> None:
    holder = Holder(Owner("host", 1, "ada"), 13, 1.0, 1.0)
    story.run().leftover = EMPTY._replace(holders=(holder,))


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (_fence_falls, "fences strictly grew"),
        (_overlap, "overlapped"),
        (_never_leaves, "overlapped"),
        (_never_told, "told the stopped holder"),
        (_no_recovery, "after a fault"),
        (_not_marked_as_abandoned, "after a fault"),
        (_starvation, "nobody starved"),
        (_no_turns, "fences strictly grew"),
        (_left_behind, "left behind"),
        (_still_held, "left behind"),
    ],
)
def test_each_check_can_fail(spoil: Callable[[Story], None], broken: str) -> None:
    story = Story()
    spoil(story)
    assert any(broken in what for what in story.broken())


@pytest.mark.parametrize("size", [(80, 24), (120, 50), (40, 10)])
def test_the_picture_fits(size: tuple[int, int]) -> None:
    width, height = size
    story = Story()
    story.history.started = now() - 10
    for _ in range(20):
        story.history.add_line(now(), "ada", "does something " * 20)
    holder = Holder(Owner("host", 1, "ada"), 13, 1.0, 1.0)
    seen = EMPTY._replace(holders=(holder,), waiters=(Waiter(*holder),) * 5, waiting=5)
    console = Console(width=width, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(picture(console, story.history, seen, "A title"))
    lines = captured.get().splitlines()
    if height >= 24:
        assert len(lines) <= height - 1
    assert any("ada" in line for line in lines)
