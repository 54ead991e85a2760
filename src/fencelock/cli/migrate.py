"""`fencelock migrate`: see to it that names can move to another engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import open_client, url_option

if TYPE_CHECKING:
    from fencelock.client import Client

_LOOK_EVERY = 0.2


@click.command(
    epilog="""\b
Examples:
  fencelock migrate 'order:*' --url redis://old --to postgresql://new/locks
  fencelock migrate '*' --url sqlite:///locks.db --to redis://localhost -w 600""",
)
@click.argument("pattern")
@url_option
@click.option("--to", "target", metavar="URL", required=True, help="The engine they move to.")
@click.option(
    "-w",
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until nobody holds or waits for them any more.",
)
@click.pass_context
def migrate(
    context: click.Context, pattern: str, url: str | None, target: str, timeout: float
) -> None:
    """Make sure that the names that match PATTERN can move from one engine to another.

    Stop the programs that lock these names, run this, and start them with the new URL. It waits until
    nobody holds or waits for any of them at the old engine, and until the new engine's fences are above
    all that the old one has given: so no two hold a lock at once, and no storage that checks fences
    refuses the new holders. It changes nothing at the old engine.

    Exit code 1: some were still in use when the time was up.
    """
    with open_client(url) as old, open_client(target) as new:
        if not new.traits.accepts_floor:
            say(
                "the new engine numbers by itself, and its fences would begin low: storage that checks "
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
        while (fence := _next_fence(new)) <= newest:  # its clock is behind the other's
            if time.monotonic() >= until:
                say(f"the new engine's clock is {(newest - fence) / 1e6:.1f} s behind: wait for it")
                context.exit(exits.CONFLICT)
            time.sleep(min(_LOOK_EVERY, (newest - fence) / 1e6))
    click.echo(f"Nobody uses {pattern} at the old engine, and fences go on above {newest}.")


def _next_fence(client: Client) -> int:
    """A fence that the engine would give now: most engines count by their clock."""
    with client.lock(f"migrate {uuid4().hex}") as lease:
        return lease.fence
