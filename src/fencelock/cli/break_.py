"""`fencelock break`: take a lock away from its holder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.cli.listing import duration, holder_json, inspect_all
from fencelock.cli.messages import printable, say
from fencelock.cli.options import checked, json_option, names_in_use, open_client, url_option
from fencelock.core.names import check_name
from fencelock.core.ticket import Holder, Inspection

if TYPE_CHECKING:
    from fencelock.client import Client


@click.command(
    "break",
    epilog="""\b
Examples:
  fencelock break nightly
  fencelock break nightly --yes --json
  fencelock break 'order:*'""",
)
@click.argument(
    "pattern", metavar="NAME", callback=checked(check_name), shell_complete=names_in_use
)
@click.option("-y", "--yes", is_flag=True, help="Don't ask for confirmation.")
@json_option
@url_option
@click.pass_context
def break_(context: click.Context, pattern: str, yes: bool, as_json: bool, url: str | None) -> None:
    """Take the lock NAME away from its holder.

    The next waiter gets it at once, with a higher fence. The old holder notices at its next renewal, at
    most a third of its ttl later. Until then both believe that they hold the lock, and only storage that
    checks fences is safe. Exit code 1 means that nobody held it, or that you said no.

    NAME may contain *, ? and [abc], as in a shell: then you see all locks that would be broken, and are asked
    once. If a name with just these characters is held, it is the only one. Quote it.
    """
    with open_client(url) as client:
        found = _held(client, pattern)
        if found and not (yes or _agreed(found)):
            say(f"{pattern!r} was not broken")
            context.exit(exits.CONFLICT)
        broken = [each for each in found if _break(client, each, asked=not yes)]
    whole = bool(found) and len(broken) == len(found)
    if as_json:
        told = [_as_json(each.name, each) for each in broken]
        if not is_pattern(pattern):
            told = told or [_as_json(pattern, None)]
        click.echo(json.dumps(told if is_pattern(pattern) else told[0], indent=2))
    else:
        for each in broken:
            click.echo(f"Broken: {each.name} was held by {printable(str(each.holders[0].owner))}")
    if not found:
        say(f"nobody holds {pattern!r}")
    if not whole:
        context.exit(exits.CONFLICT)


def is_pattern(text: str) -> bool:
    """Whether a shell would look for names that match it."""
    return any(each in text for each in "*?[")


def _held(client: Client, pattern: str) -> list[Inspection]:
    """The name, or the names that match, if they are held."""
    seen = client.inspect(pattern, limit=0)
    if seen.holders or not is_pattern(pattern):
        return [seen] if seen.holders else []
    return [each for each in inspect_all(client, pattern) if each.holders]


def _break(client: Client, shown: Inspection, *, asked: bool) -> bool:
    """Break a lock. But not if its holder is another one than the user has agreed to."""
    name = shown.name
    if asked and changed_hands(client, name, shown.holders):
        say(f"{name!r} got another holder while you were asked: it was not broken")
        return False
    if not client.break_lock(name):
        say(f"nobody holds {name!r}")
        return False
    return True


def _as_json(name: str, broken: Inspection | None) -> dict[str, Any]:
    holders = broken.holders if broken else ()
    return {
        "name": name,
        "broken": bool(broken),
        "holders": [holder_json(each) for each in holders],
    }


def changed_hands(client: Client, name: str, shown: Iterable[Holder]) -> bool:
    """Whether the lock has a holder now that was not shown. The user agreed for the shown ones only."""
    now = client.inspect(name, limit=0).holders
    return not {each.fence for each in now} <= {each.fence for each in shown}


def _agreed(found: Sequence[Inspection]) -> bool:
    if len(found) == 1:
        question = f"Take {_told(found[0])}?"
    else:
        for each in found:
            click.echo(f"  {_told(each)}", err=True)
        question = f"Take these {len(found)} locks from their holders?"
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # no terminal, or end of input
        click.echo(err=True)
        return False


def _told(seen: Inspection) -> str:
    holder, *others = seen.holders
    more = f" and {len(others)} more" if others else ""
    owner = f"{printable(str(holder.owner))}{more}"
    return f"{seen.name!r} from {owner}, held for {duration(holder.held_for)}"
