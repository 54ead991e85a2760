"""`fencelock demo`: watch a lock survive failures."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.signals import exit_on_signals

if TYPE_CHECKING:
    from fencelock.cli.demo.checks import Check
    from fencelock.cli.demo.history import History
    from fencelock.cli.demo.stale_write import StaleWrite
    from fencelock.cli.demo.view import LiveView, PlainView


@click.command(
    epilog="""\b
Examples:
  fencelock demo
  fencelock demo --seconds 40 | tee demo.txt"""
)
@click.option(
    "--seconds",
    type=click.FloatRange(5, 600),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="About how long it takes.",
)
@click.pass_context
def demo(context: click.Context, seconds: float) -> None:
    """Watch five processes take turns on one lock, in a temporary file.

    One holder is stopped past its ttl, another is killed with SIGKILL. Then a stopped holder goes on and
    writes, to storage without a guard and with a guard. At the end the demo says what happened, and
    whether every invariant held. The exit code is 0 only if all did.
    """
    # Only here, because the import of rich takes longer than everything else.
    from fencelock.cli.demo.checks import check_all
    from fencelock.cli.demo.history import History
    from fencelock.cli.demo.runner import Demo, NoProgress
    from fencelock.cli.demo.stale_write import show_stale_write
    from fencelock.io.clock import now

    with exit_on_signals(), tempfile.TemporaryDirectory(prefix="fencelock-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'locks.db'}"
        history = History(now())
        try:
            with _view() as view, Demo(url, view, history) as demo:
                leftover = demo.run(seconds)
            stale_write = show_stale_write(url, Path(folder))
        except NoProgress as error:
            say(f"the demo failed: {error}")
            context.exit(exits.CONFLICT)
        checks = [*check_all(history, leftover), *stale_write.checks()]
    _print_summary(history, stale_write, checks)
    context.exit(0 if all(check.held for check in checks) else exits.CONFLICT)


def _view() -> LiveView | PlainView:
    from rich.console import Console

    from fencelock.cli.demo.view import LiveView, PlainView

    console = Console()
    return LiveView(console) if console.is_terminal else PlainView()


def _print_summary(history: History, stale_write: StaleWrite, checks: list[Check]) -> None:
    from fencelock.cli.demo.runner import TTL

    turns = sorted(history.turns, key=lambda turn: turn.entered)
    slowest = max(turns, key=lambda turn: turn.waited)
    span = turns[-1].entered - turns[0].entered
    click.secho("\nWhat happened", bold=True)
    click.echo(
        f"  {len(turns)} grants in {span:.1f} s, fences {turns[0].fence} → {turns[-1].fence}"
    )
    click.echo(f"  longest wait: {slowest.waited:.2f} s, by {slowest.worker}")
    for fault in history.faults:
        if fault.next is not None:
            click.echo(
                f"  {fault.worker} was {fault.kind} while holding: {fault.next.worker} got the lock "
                f"{fault.recovery:.2f} s later (ttl {TTL:g} s)"
            )
    for turn in turns:
        if turn.lost_at is not None and turn.valid_until is not None:
            click.echo(
                f"  {turn.worker} learned {turn.lost_at - turn.valid_until:.2f} s later from lease.check() "
                "that its lease was lost"
            )
    click.secho("\nWhy the storage has to check the fence", bold=True)
    for line in stale_write.lines():
        click.echo(f"  {line}")
    click.secho("\nDid every invariant hold?", bold=True)
    for check in checks:
        mark = click.style("ok    ", fg="green") if check.held else click.style("BROKEN", fg="red")
        click.echo(f"  {mark}  {check.what}{check.broken and f': {check.broken}'}")
    if all(check.held for check in checks):
        click.secho("\nEvery invariant held.", bold=True, fg="green")
    else:
        click.secho("\nAn invariant was broken: please report this.", bold=True, fg="red")
