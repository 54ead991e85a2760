"""Two ways to look at the demo: live on a terminal, or a line per event in a pipe."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fencelock.cli.demo.director import NAME, TTL
from fencelock.cli.demo.scene import Doing, Scene, Worker
from fencelock.core.ticket import Inspection
from fencelock.io.clock import now

COLOURS = ("cyan", "green", "yellow", "magenta", "blue")

_CELL = 0.2
"""Seconds per character in the lanes."""

_LOG = (3, 10)
"""Lines of the log, at least and at most: as many as the terminal has room for."""

_OTHER_LINES = 18

_LANE = {
    Doing.RESTING: (" ", ""),
    Doing.WAITING: ("·", "dim"),
    Doing.HOLDING: ("█", ""),
    Doing.STOPPED: ("░", ""),
    Doing.DEAD: ("✗", "red"),
}


class PlainView:
    """Prints a line per event: no colours, nothing moves."""

    def __init__(self) -> None:
        self._printed = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def draw(self, scene: Scene, seen: Inspection | None, title: str) -> None:
        """Print what is new."""
        for at, who, what, _ in scene.log[self._printed :]:
            print(f"{at:6.2f} s  {who:<5} {what}", flush=True)
        self._printed = len(scene.log)


class LiveView:
    """Redraws the whole picture several times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def draw(self, scene: Scene, seen: Inspection | None, title: str) -> None:
        """Show the state of this moment."""
        self._live.update(self.picture(scene, seen, title), refresh=True)

    def picture(self, scene: Scene, seen: Inspection | None, title: str) -> RenderableType:
        """The state of this moment, no higher than the terminal."""
        colours = dict(zip(scene.workers, COLOURS, strict=False))
        head = Text.assemble(
            ("Fencelock ", "bold"),
            f"{len(scene.workers)} processes, one lock in a file, ttl {TTL:g} s",
            (f"  {now() - scene.started:4.1f} s", "dim"),
        )
        return Group(
            head,
            Text(title or "The workers start", style="bold"),
            Panel(
                _lock(scene, seen, colours),
                title=f"lock {NAME!r}",
                title_align="left",
                box=box.ROUNDED,
            ),
            Panel(
                _workers(scene, colours, self._console.width - 30),
                title="workers",
                title_align="left",
                subtitle="█ holds  · waits  ░ stopped  ✗ dead",
                subtitle_align="right",
                box=box.ROUNDED,
            ),
            Panel(
                _log(scene, colours, self._console.height - _OTHER_LINES),
                title="what happens",
                title_align="left",
                box=box.ROUNDED,
            ),
        )


def _lock(scene: Scene, seen: Inspection | None, colours: dict[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", width=9)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    holder = Text("-", style="dim")
    fence = Text(str(seen.fence) if seen and seen.fence else "-")
    queue = Text()
    if seen is not None:
        for each in seen.holders:
            name = each.owner.label
            doing = scene.workers[name].doing if name in scene.workers else None
            gone = f", {doing.value}" if doing in (Doing.STOPPED, Doing.DEAD) else ""
            holder = Text.assemble(
                (name, f"bold {colours.get(name, '')}"),
                f" (pid {each.owner.pid}",
                (gone, "red"),
                f") for {each.held_for:.1f} s, expires in {each.expires_in:.1f} s",
            )
            fence = Text(str(each.fence), style="bold")
        for waiter in seen.waiters:
            queue.append(waiter.owner.label, colours.get(waiter.owner.label, ""))
            queue.append(f" {waiter.waiting_for:.1f} s   ", "dim")
    grid.add_row("holder", holder)
    grid.add_row("fence", fence)
    grid.add_row("queue", queue if queue else Text("-", style="dim"))
    grid.add_row("hand-offs", str(max(0, len(scene.turns) - 1)))
    return grid


def _workers(scene: Scene, colours: dict[str, str], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=5)
    grid.add_column(width=9)
    grid.add_column(justify="right", width=8)
    grid.add_column(no_wrap=True)
    moment = now()
    for worker in scene.workers.values():
        colour = colours[worker.name]
        state = "red" if worker.doing in (Doing.DEAD, Doing.STOPPED) else ""
        grid.add_row(
            Text(worker.name, style=f"bold {colour}"),
            Text(worker.doing.value, style=state),
            Text(f"{worker.turns} turn{'s' * (worker.turns != 1)}", style="dim"),
            _lane(worker, colour, moment, max(10, width)),
        )
    return grid


def _lane(worker: Worker, colour: str, moment: float, width: int) -> Text:
    """What the worker did in the last seconds; at any moment only one lane is filled."""
    lane = Text(no_wrap=True)
    newest = int(moment / _CELL)
    for cell in range(newest - width + 1, newest + 1):
        doing = worker.did(min((cell + 0.5) * _CELL, moment))
        mark, style = _LANE[doing] if doing else (" ", "")
        lane.append(mark, style or colour)
    return lane


def _log(scene: Scene, colours: dict[str, str], room: int) -> RenderableType:
    room = min(max(room, _LOG[0]), _LOG[1])
    lines = [
        Text.assemble(
            (f"{at:5.1f} s ", "dim"),
            (f"{who:<5} ", colours.get(who, "")),
            (what, "bold" if loud else ""),
            no_wrap=True,
            overflow="ellipsis",
        )
        for at, who, what, loud in scene.log[-room:]
    ]
    return Group(*lines, *[Text()] * (room - len(lines)))
