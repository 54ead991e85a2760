"""`fencelock demo`: watch a lock survive failures."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import between, duration_option


@click.command(
    epilog="""\b
Examples:
  fencelock demo
  fencelock demo --seconds 40 | tee demo.txt"""
)
@duration_option(
    "--seconds",
    check=between(5, 600),
    default="15s",
    show_default=True,
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
    from fencelock.cli.demo.history import History, check_all
    from fencelock.cli.demo.runner import Demo, NoProgress
    from fencelock.cli.demo.stale_write import show_stale_write
    from fencelock.cli.demo.view import print_summary, view
    from fencelock.io.clock import now

    with exits.exit_on_signals(), tempfile.TemporaryDirectory(prefix="fencelock-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'locks.db'}"
        history = History(now())
        try:
            with view(history) as draw:
                leftover = Demo(url, history, draw).run(seconds)
            stale_write = show_stale_write(url, Path(folder))
        except NoProgress as error:
            say(f"the demo failed: {error}")
            context.exit(exits.CONFLICT)
    checks = check_all(history, leftover) | stale_write.checks()
    print_summary(history, stale_write.lines(), checks)
    context.exit(exits.CONFLICT if any(checks.values()) else 0)
