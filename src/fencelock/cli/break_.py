"""`fencelock break`: take a lock away from its holder."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from fencelock.cli import exits
from fencelock.cli.listing import duration, holder_json
from fencelock.cli.messages import printable, say
from fencelock.cli.options import json_option, name_argument, open_client, url_option
from fencelock.core.ticket import Holder

if TYPE_CHECKING:
    from fencelock.client import Client


@click.command(
    "break",
    epilog="""\b
Examples:
  fencelock break nightly
  fencelock break nightly --yes --json""",
)
@name_argument
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@json_option
@url_option
@click.pass_context
def break_(context: click.Context, name: str, yes: bool, as_json: bool, url: str | None) -> None:
    """Take the lock NAME away from its holder.

    The next waiter gets it at once, with a higher fence. The old holder notices at its next renewal, at
    most a third of its ttl later. Until then both believe that they hold the lock, and only storage that
    checks fences is safe. Exit code 1 means that nobody held it, or that you said no.
    """
    with open_client(url) as client:
        seen = client.inspect(name, limit=0)
        holders = seen.holders
        if holders and not (yes or _agreed(name, holders[0])):
            say(f"{name!r} was not broken")
            context.exit(exits.CONFLICT)
        if holders and not yes and changed_hands(client, name, holders):
            say(f"{name!r} got another holder while you were asked: it was not broken")
            context.exit(exits.CONFLICT)
        broken = bool(holders) and client.break_lock(name)
    if as_json:
        taken = [holder_json(each) for each in holders] if broken else []
        click.echo(json.dumps({"name": name, "broken": broken, "holders": taken}, indent=2))
    elif broken:
        click.echo(f"Broken: {name} was held by {printable(str(holders[0].owner))}")
    if not broken:
        say(f"nobody holds {name!r}")
        context.exit(exits.CONFLICT)


def changed_hands(client: Client, name: str, shown: Iterable[Holder]) -> bool:
    """Whether the lock has a holder now that was not shown. The user agreed for the shown ones only."""
    now = client.inspect(name, limit=0).holders
    return not {each.fence for each in now} <= {each.fence for each in shown}


def _agreed(name: str, holder: Holder) -> bool:
    question = (
        f"Take {name!r} from {printable(str(holder.owner))}, "
        f"who has held it for {duration(holder.held_for)}?"
    )
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # no terminal, or end of input
        click.echo(err=True)
        return False
