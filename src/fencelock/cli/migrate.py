"""`fencelock migrate`: make sure that names can move to another engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import duration_option, open_client, url_option
from fencelock.core.durations import check_timeout

if TYPE_CHECKING:
    from fencelock.client import Client

_LOOK_EVERY = 0.2
"""Seconds between two looks at the engines."""


@click.command(
    epilog="""\b
Examples:
  fencelock migrate 'order:*' --url redis://old --to postgresql://new/locks
  fencelock migrate '*' --url sqlite:///locks.db --to redis://localhost -w 600""",
)
@click.argument("pattern")
@url_option
@click.option("--to", "target", metavar="URL", required=True, help="The new engine.")
@duration_option(
    "-w",
    "--timeout",
    check=check_timeout,
    default="60s",
    show_default=True,
    help="How long to wait until the names are free.",
)
@click.pass_context
def migrate(
    context: click.Context, pattern: str, url: str | None, target: str, timeout: float
) -> None:
    """Check that names can move to another engine.

    Stop the programs that lock the names that match PATTERN, run this, and start the programs with the
    new URL. The command waits until nobody holds or waits for any of these names at the old engine
    (--url). So no lock has two holders. Then it waits until the fences of the new engine are above all
    fences of the old engine. So storage that checks fences accepts the new holders. It changes none of
    these names.

    Exit code 1 means that some names were still in use when the time was over.
    """
    with open_client(url) as old, open_client(target) as new:
        if not new.traits.accepts_floor:
            say(
                "the new engine chooses its fences itself, and they would begin low: storage that checks "
                "fences would refuse every new holder. Nothing was done"
            )
            context.exit(exits.UNAVAILABLE)
        until = time.monotonic() + timeout
        newest = 0
        while names := old.names(pattern):
            newest = max([newest, *(old.inspect(name, limit=0).fence for name in names)])
            if time.monotonic() >= until:
                say(f"still in use: {', '.join(names[:5])}{' …' if len(names) > 5 else ''}")
                context.exit(exits.CONFLICT)
            time.sleep(_LOOK_EVERY)
        newest = max(newest, _next_fence(old))
        while (fence := _next_fence(new)) <= newest:  # its clock is behind
            if time.monotonic() >= until:
                say(f"the new engine's clock is {(newest - fence) / 1e6:.1f} s behind: wait for it")
                context.exit(exits.CONFLICT)
            time.sleep(min(_LOOK_EVERY, (newest - fence) / 1e6))
    click.echo(f"Nobody uses {pattern} at the old engine. New fences will be above {newest}.")


def _next_fence(client: Client) -> int:
    """A fence that the engine gives now. For most engines it depends on their clock."""
    with client.lock(f"migrate {uuid4().hex}") as lease:
        return lease.fence
