"""`fencelock top`: a live view of the locks at an engine."""

from __future__ import annotations

import os
import sys

import click

from fencelock.cli.listing import inspect_all, print_names
from fencelock.cli.options import (
    between,
    duration_option,
    engine_argument,
    only_url,
    open_client,
    url_option,
)
from fencelock.cli.top.model import ORDERS, Order, sort_inspections


@click.command(
    epilog="""\b
Examples:
  fencelock top redis://localhost
  fencelock top --pattern 'order:*' --sort held
  FENCELOCK_URL=postgresql://me:secret@db1/app fencelock top --once"""
)
@engine_argument
@click.option(
    "--pattern",
    default="*",
    metavar="PATTERN",
    help="Only names that match. It may contain *, ? and [abc], as for ls.",
)
@click.option(
    "--sort",
    "order",
    type=click.Choice(ORDERS),
    default="waiting",
    show_default=True,
    help="What comes first: most waiting, longest held, or by name.",
)
@duration_option(
    "--interval",
    check=between(0.1, 3600),
    default="1s",
    show_default=True,
    help="How often to ask the engine. If it answers slowly, it is asked less often.",
)
@click.option("--once", is_flag=True, help="Print a plain table and exit.")
@url_option
@click.pass_context
def top(
    context: click.Context,
    engine: str | None,
    pattern: str,
    order: Order,
    interval: float,
    once: bool,
    url: str | None,
) -> None:
    """Watch the locks at an engine: who holds them, for how long, and how many wait.

    Press ? for the keys. You can sort, filter, open a name to see its queue, and break a lock. It changes
    nothing unless you break a lock. If stdin or stdout is no terminal, it prints a table, as with --once.

    Put a URL with a password into FENCELOCK_URL: other users of this machine can see command lines.
    """
    from fencelock.core.url import Url

    where = only_url(engine, url)
    client = open_client(where)
    if once or not _can_draw():
        with client:
            print_names(sort_inspections(inspect_all(client, pattern), order))
        return
    # Only here, because the import of rich takes longer than everything else.
    from fencelock.cli.top.loop import watch

    context.exit(watch(client, str(Url.parse(where)), pattern, interval, order))


def _can_draw() -> bool:
    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    return terminal and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
