"""The demo: it runs, it tidies up, and its verdict can be "broken"."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from fencelock.cli.demo.accounts import Ending
from fencelock.cli.demo.scene import Scene
from fencelock.cli.demo.verdict import judge
from fencelock.cli.demo.view import LiveView
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
        "lease.check() told it otherwise",
        "an account without a guard then holds 101: 10 have vanished",
        "an account with a guard then holds 110: fence",
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
    while "is stopped by us" not in started.line():  # it plays on
        pass
    started.signal(signal.SIGTERM)
    assert started.wait() == 128 + signal.SIGTERM


def test_no_worker_outlives_a_demo_that_was_killed(sqlite_cli: Cli, tmp_path: Path) -> None:
    started = start_demo(sqlite_cli, tmp_path)
    family = started.family()
    while "is stopped by us" not in started.line():  # it plays on when all of them are ready
        pass
    family[0].suspend()  # not even one that is stopped
    started.signal(signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL
    eventually(lambda: gone(family), "the workers' end")


class Play:
    """A small play in which everything goes well, with a place for things to go wrong."""

    def __init__(self) -> None:
        self.scene = Scene(started=0.0)
        for name in ("ada", "bob"):
            self.scene.hire(name, pid=1)
        self.left_over = EMPTY

    def turn(self, who: str, fence: int, entered: float, left: float | None) -> None:
        self.scene.take_in(who, "asks", at=entered - 0.5)
        abandoned = bool(self.scene.faults) and self.scene.faults[-1].next is None
        self.scene.take_in(who, "enters", at=entered, fence=fence, abandoned=abandoned)
        if left is not None:
            self.scene.take_in(who, "leaves", at=left, fence=fence)

    def fault(self, kind: str, who: str, fence: int, at: float) -> None:
        self.scene.struck(kind, self.scene.workers[who], fence, at)

    def lost(self, who: str, fence: int, sure: float, at: float) -> None:
        self.scene.take_in(who, "lost", at=at, fence=fence, sure=sure, reason="expired")

    def run(self) -> Play:
        self.turn("ada", 10, 1.0, 2.0)
        self.turn("bob", 11, 2.1, None)
        self.fault("stopped", "bob", 11, 2.2)
        self.turn("ada", 12, 4.0, 5.0)
        self.lost("bob", 11, 2.2, 6.0)
        self.turn("bob", 13, 6.1, 7.0)
        return self

    def broken(self) -> list[str]:
        return [check.what for check in judge(self.scene, self.left_over) if not check.held]


def test_the_last_scene_can_be_broken() -> None:
    good = Ending(plain=101, guarded=110, refused="refused")
    assert [check.held for check in good.checks()] == [True, True]
    bad = Ending(plain=101, guarded=101, refused="")
    assert [check.held for check in bad.checks()] == [False, False]


def test_all_is_well() -> None:
    assert Play().run().broken() == []


def _fence_falls(play: Play) -> None:
    play.run().turn("ada", 13, 8.0, 9.0)


def _overlap(play: Play) -> None:
    play.run().turn("ada", 14, 6.9, 9.0)


def _never_leaves(play: Play) -> None:
    play.run().turn("ada", 14, 8.0, None)
    play.turn("bob", 15, 9.0, 9.5)


def _never_told(play: Play) -> None:
    play.turn("ada", 11, 1.0, None)
    play.fault("stopped", "ada", 11, 2.2)
    play.turn("bob", 12, 4.0, 5.0)
    play.turn("ada", 13, 5.1, 6.0)


def _no_recovery(play: Play) -> None:
    play.run().turn("ada", 14, 8.0, None)
    play.fault("killed", "ada", 14, 8.1)
    play.turn("bob", 15, 8.0, 8.05)  # not after the fault, so nobody's


def _not_marked_as_abandoned(play: Play) -> None:
    play.run()
    for turn in play.scene.turns:
        turn.abandoned = False


def _starvation(play: Play) -> None:
    play.run().scene.turns.pop()


def _no_turns(play: Play) -> None:
    pass


def _left_behind(play: Play) -> None:
    play.run().left_over = EMPTY._replace(waiting=1)


def _still_held(play: Play) -> None:
    holder = Holder(Owner("host", 1, "ada"), 13, 1.0, 1.0)
    play.run().left_over = EMPTY._replace(holders=(holder,))


@pytest.mark.parametrize(
    ("spoil", "broken"),
    [
        (_fence_falls, "fences strictly grew"),
        (_overlap, "overlapped"),
        (_never_leaves, "overlapped"),
        (_never_told, "told the stopped holder"),
        (_no_recovery, "after each fault"),
        (_not_marked_as_abandoned, "after each fault"),
        (_starvation, "nobody starved"),
        (_no_turns, "fences strictly grew"),
        (_left_behind, "left behind"),
        (_still_held, "left behind"),
    ],
)
def test_the_verdict_can_be_broken(spoil: Callable[[Play], None], broken: str) -> None:
    play = Play()
    spoil(play)
    assert any(broken in what for what in play.broken())


@pytest.mark.parametrize("size", [(80, 24), (120, 50), (40, 10)])
def test_the_picture_fits(size: tuple[int, int]) -> None:
    width, height = size
    play = Play()
    play.scene.started = now() - 10
    for _ in range(20):
        play.scene.tell(now(), "ada", "does something " * 20)
    holder = Holder(Owner("host", 1, "ada"), 13, 1.0, 1.0)
    seen = EMPTY._replace(holders=(holder,), waiters=(Waiter(*holder),) * 5, waiting=5)
    console = Console(width=width, height=height, force_terminal=True)
    with console.capture() as captured:
        console.print(LiveView(console).picture(play.scene, seen, "A title"))
    lines = captured.get().splitlines()
    if height >= 24:
        assert len(lines) <= height - 1
    assert any("ada" in line for line in lines)
