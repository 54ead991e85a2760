"""Two views of the demo: a live picture on a terminal, or a line per event in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fencelock.cli.demo.history import History, State, Worker
from fencelock.cli.demo.runner import Draw
from fencelock.cli.demo.worker import NAME, TTL
from fencelock.core.ticket import Inspection
from fencelock.io.clock import now

COLOURS = ("cyan", "green", "yellow", "magenta", "blue")

_CELL = 0.2
"""Seconds per character in the timelines."""

_LOG = (3, 10)
"""Minimum and maximum number of log lines. The height of the terminal decides."""

_OTHER_LINES = 18
"""Lines of the picture that are not lines of the log."""

_MARKS = {
    State.WAITING: ("·", "dim"),
    State.HOLDING: ("█", ""),
    State.STOPPED: ("░", ""),
    State.DEAD: ("✗", "red"),
}


@contextmanager
def view(history: History) -> Iterator[Draw]:
    """Yields a function that shows the present state: a new picture, or the new lines of the log."""
    console = Console()
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda seen, title: live.update(
                picture(console, history, seen, title), refresh=True
            )
        return
    printed = 0

    def print_lines(seen: Inspection, title: str) -> None:
        nonlocal printed
        for at, who, what, _ in history.log[printed:]:
            print(f"{at:6.2f} s  {who:<5} {what}", flush=True)
        printed = len(history.log)

    yield print_lines


def picture(console: Console, history: History, seen: Inspection, title: str) -> RenderableType:
    """The present state, no higher than the terminal."""
    colours = dict(zip(history.workers, COLOURS, strict=False))
    head = Text.assemble(
        ("Fencelock ", "bold"),
        f"{len(history.workers)} processes, one lock in a file, ttl {TTL:g} s",
        (f"  {now() - history.started:4.1f} s", "dim"),
    )
    return Group(
        head,
        Text(title, style="bold"),
        _panel(f"lock {NAME!r}", _lock(history, seen, colours)),
        _panel(
            "workers",
            _workers(history, colours, console.width - 30),
            "█ holds  · waits  ░ stopped  ✗ dead",
        ),
        _panel("events", _log(history, colours, console.height - _OTHER_LINES)),
    )


def _panel(title: str, content: RenderableType, legend: str | None = None) -> Panel:
    return Panel(content, title=title, title_align="left", subtitle=legend, subtitle_align="right")


def _lock(history: History, seen: Inspection, colours: dict[str, str]) -> RenderableType:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", width=9)
    grid.add_column(no_wrap=True, overflow="ellipsis")
    holder = Text("-", style="dim")
    fence = Text(str(seen.fence or "-"))
    queue = Text()
    for each in seen.holders:
        name = each.owner.label
        state = history.workers[name].state.value
        holder = Text.assemble(
            (name, f"bold {colours[name]}"),
            f" (pid {each.owner.pid}",
            (f", {state}" if state in ("stopped", "dead") else "", "red"),
            f") for {each.held_for:.1f} s, expires in {each.expires_in:.1f} s",
        )
        fence = Text(str(each.fence), style="bold")
    for waiter in seen.waiters:
        queue.append(waiter.owner.label, colours[waiter.owner.label])
        queue.append(f" {waiter.waiting_for:.1f} s   ", "dim")
    grid.add_row("holder", holder)
    grid.add_row("fence", fence)
    grid.add_row("queue", queue if queue else Text("-", style="dim"))
    grid.add_row("hand-offs", str(max(0, len(history.turns) - 1)))
    return grid


def _workers(history: History, colours: dict[str, str], width: int) -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=5)
    grid.add_column(width=9)
    grid.add_column(justify="right", width=8)
    grid.add_column(no_wrap=True)
    moment = now()
    for worker in history.workers.values():
        colour = colours[worker.name]
        colour_of_state = "red" if worker.state in (State.DEAD, State.STOPPED) else ""
        turns = sum(turn.worker == worker.name for turn in history.turns)
        grid.add_row(
            Text(worker.name, style=f"bold {colour}"),
            Text(worker.state.value, style=colour_of_state),
            Text(f"{turns} turn{'s' * (turns != 1)}", style="dim"),
            _timeline(worker, colour, moment, max(10, width)),
        )
    return grid


def _timeline(worker: Worker, colour: str, moment: float, width: int) -> Text:
    """What the worker did in the last seconds. At each moment only one worker holds the lock."""
    line = Text(no_wrap=True)
    newest = int(moment / _CELL)
    for cell in range(newest - width + 1, newest + 1):
        state = worker.state_at(min((cell + 0.5) * _CELL, moment))
        mark, style = _MARKS.get(state, (" ", ""))
        line.append(mark, style or colour)
    return line


def _log(history: History, colours: dict[str, str], room: int) -> RenderableType:
    room = min(max(room, _LOG[0]), _LOG[1])
    lines = [
        Text.assemble(
            (f"{at:5.1f} s ", "dim"),
            (f"{who:<5} ", colours.get(who, "")),
            (what, "bold" if bold else ""),
            no_wrap=True,
            overflow="ellipsis",
        )
        for at, who, what, bold in history.log[-room:]
    ]
    return Group(*lines, *[Text()] * (room - len(lines)))


def print_summary(history: History, stale_write: list[str], checks: dict[str, str]) -> None:
    """Print what happened, and how each invariant was broken, if it was."""
    turns = sorted(history.turns, key=lambda turn: turn.entered)
    slowest = max(turns, key=lambda turn: turn.waited)
    span = turns[-1].entered - turns[0].entered
    lines = [
        f"{len(turns)} grants in {span:.1f} s, fences {turns[0].fence} → {turns[-1].fence}",
        f"longest wait: {slowest.waited:.2f} s, by {slowest.worker}",
    ]
    for fault in history.faults():
        if after := history.next_after(fault):
            lines.append(
                f"{fault.worker} was {fault.fault} while holding: {after.worker} got the lock "
                f"{after.entered - fault.fault_at:.2f} s later (ttl {TTL:g} s)"
            )
    for turn in turns:
        if turn.lost_at is not None and turn.valid_until is not None:
            lines.append(
                f"{turn.worker} learned {turn.lost_at - turn.valid_until:.2f} s later from lease.check() "
                "that its lease was lost"
            )
    held, broken = click.style("ok    ", fg="green"), click.style("BROKEN", fg="red")
    results = [
        f"{broken}  {what}: {how}" if how else f"{held}  {what}" for what, how in checks.items()
    ]
    for title, text in (
        ("What happened", lines),
        ("Why the storage has to check the fence", stale_write),
        ("Did every invariant hold?", results),
    ):
        click.secho(f"\n{title}", bold=True)
        for line in text:
            click.echo(f"  {line}")
    if any(checks.values()):
        click.secho("\nAn invariant was broken: please report this.", bold=True, fg="red")
    else:
        click.secho("\nEvery invariant held.", bold=True, fg="green")
