"""`fencelock demo`: see the lock at work, with its failures, and a verdict at the end."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fencelock.cli import exits
from fencelock.cli.ending import terminable
from fencelock.cli.messages import say

if TYPE_CHECKING:
    from fencelock.cli.demo.accounts import Ending
    from fencelock.cli.demo.scene import Scene
    from fencelock.cli.demo.verdict import Check
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
    help="About how long it takes.",
)
@click.pass_context
def demo(context: click.Context, seconds: float) -> None:
    """Watch five processes take turns on one lock, in a temporary file.

    One holder is stopped past its ttl, another is killed with -9. Then one that was stopped writes, to
    storage without a guard and with one. At the end it says what happened and whether every invariant
    held; the exit code is 0 only if all did.
    """
    # Only here, because rich takes longer to import than everything else.
    from fencelock.cli.demo import accounts
    from fencelock.cli.demo.director import Director, NoProgress
    from fencelock.cli.demo.scene import Scene
    from fencelock.cli.demo.verdict import judge
    from fencelock.io.clock import now

    with terminable(), tempfile.TemporaryDirectory(prefix="fencelock-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'locks.db'}"
        scene = Scene(now())
        try:
            with _view() as view, Director(url, view, scene) as director:
                left_over = director.play(seconds)
            ending = accounts.play(url, Path(folder))
        except NoProgress as error:
            say(f"the demo failed: {error}")
            context.exit(exits.CONFLICT)
        checks = [*judge(scene, left_over), *ending.checks()]
    _summarise(scene, ending, checks)
    context.exit(0 if all(check.held for check in checks) else exits.CONFLICT)


def _view() -> LiveView | PlainView:
    from rich.console import Console

    from fencelock.cli.demo.view import LiveView, PlainView

    console = Console()
    return LiveView(console) if console.is_terminal else PlainView()


def _summarise(scene: Scene, ending: Ending, checks: list[Check]) -> None:
    from fencelock.cli.demo.director import TTL

    turns = sorted(scene.turns, key=lambda turn: turn.entered)
    slowest = max(turns, key=lambda turn: turn.waited)
    span = turns[-1].entered - turns[0].entered
    click.secho("\nWhat happened", bold=True)
    click.echo(
        f"  {len(turns)} grants in {span:.1f} s, fences {turns[0].fence} → {turns[-1].fence}"
    )
    click.echo(f"  longest wait: {slowest.waited:.2f} s, by {slowest.worker}")
    for fault in scene.faults:
        if fault.next is not None:
            click.echo(
                f"  {fault.worker} was {fault.kind} while holding: {fault.next.worker} had the lock "
                f"{fault.recovery:.2f} s later (ttl {TTL:g} s)"
            )
    for turn in turns:
        if turn.told_at is not None and turn.sure_until is not None:
            click.echo(
                f"  {turn.worker} thought it held the lock {turn.told_at - turn.sure_until:.2f} s "
                "longer; lease.check() told it otherwise"
            )
    click.secho("\nWhy the storage has to check the fence", bold=True)
    for line in ending.lines():
        click.echo(f"  {line}")
    click.secho("\nDid every invariant hold?", bold=True)
    for check in checks:
        mark = click.style("ok    ", fg="green") if check.held else click.style("BROKEN", fg="red")
        click.echo(f"  {mark}  {check.what}{check.broken and f': {check.broken}'}")
    if all(check.held for check in checks):
        click.secho("\nEvery invariant held.", bold=True, fg="green")
    else:
        click.secho("\nAn invariant was broken: please report this.", bold=True, fg="red")
