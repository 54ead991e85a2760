"""`fencelock ls` and `fencelock show`: names, their holders and their waiters."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from threading import Event
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.cli.messages import printable, say
from fencelock.cli.options import (
    between,
    duration_option,
    json_option,
    name_argument,
    open_client,
    url_option,
)
from fencelock.cli.tables import print_lines, print_table
from fencelock.core.errors import EngineError
from fencelock.core.ticket import READING, Contender, Holder, Inspection

if TYPE_CHECKING:
    from fencelock.client import Client


@click.command(
    epilog="""\b
Examples:
  fencelock ls
  fencelock ls 'order:*' --json | jq -r '.[].name'"""
)
@click.argument("pattern", default="*")
@click.option("-w", "--watch", is_flag=True, help="Print the list again and again, until Ctrl-C.")
@duration_option(
    "--every",
    default="2s",
    show_default=True,
    check=between(0.1, 86_400),
    help="With --watch: the time between two lists.",
)
@json_option
@url_option
def ls(pattern: str, watch: bool, every: float, as_json: bool, url: str | None) -> None:
    """List the names that are held or waited for, a line for each holder.

    PATTERN may contain *, ? and [abc], as in a shell. Quote it, so that the shell does not expand it.
    """
    with open_client(url) as client:
        if watch:
            _watch(client, pattern, every, as_json)
        else:
            _list(client, pattern, as_json)


def _list(client: Client, pattern: str, as_json: bool) -> None:
    seen = inspect_all(client, pattern)
    if as_json:
        _print_json([_summary(each) for each in seen])
    else:
        print_names(seen)


def _watch(client: Client, pattern: str, every: float, as_json: bool) -> None:
    """List again and again. A terminal shows the newest list only; a pipe gets them all."""
    try:
        while True:
            try:
                seen = inspect_all(client, pattern)
            except EngineError as error:  # it may come back
                say(str(error))
            else:
                click.clear()  # does nothing in a pipe
                if as_json:
                    click.echo(json.dumps([_summary(each) for each in seen], ensure_ascii=False))
                else:
                    print_names(seen)
                    click.echo()
                sys.stdout.flush()
            Event().wait(every)
    except KeyboardInterrupt:
        return


@click.command(
    epilog="""\b
Examples:
  fencelock show nightly
  fencelock show nightly --json | jq '.waiting'
  fencelock show nightly -q && echo "the nightly job is running"

\b
Exit codes: 0, or with -q 1 if NAME is free and nobody waits for it."""
)
@name_argument
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(0),
    metavar="N",
    help="How many waiters to list.",
)
@click.option(
    "-q", "--quiet", is_flag=True, help="Print nothing: exit code 0 means held, 1 means free."
)
@json_option
@url_option
@click.pass_context
def show(
    context: click.Context, name: str, limit: int, quiet: bool, as_json: bool, url: str | None
) -> None:
    """Show the holder of NAME, its fence, and the queue."""
    with open_client(url) as client:
        seen = client.inspect(name, limit=limit)
    if quiet:
        context.exit(0 if in_use(seen) else exits.FREE)
    if as_json:
        waiters = [
            {**_contender_json(each), "waiting_for": round(each.waiting_for, 3)}
            for each in seen.waiters
        ]
        _print_json({**_summary(seen), "waiters": waiters})
        return
    for line in _describe(seen):
        click.echo(line)
    if seen.waiters:
        click.echo()
        print_table(
            ("", "WAITER", "FENCE", "WAITS FOR", "EXPIRES IN"),
            [
                (str(place), *_cells(each, each.waiting_for))
                for place, each in enumerate(seen.waiters, start=1)
            ],
        )
    if seen.waiting > len(seen.waiters):
        click.echo(f"and {seen.waiting - len(seen.waiters)} more")


def inspect_all(client: Client, pattern: str) -> list[Inspection]:
    """The holders of all names that match a pattern, and how many wait."""
    seen = [client.inspect(name, limit=0) for name in client.names(pattern)]
    # Leave out names that were released since the names were listed.
    return [each for each in seen if in_use(each)]


def in_use(seen: Inspection) -> bool:
    """Whether the name is held or waited for."""
    return bool(seen.holders or seen.waiting)


def print_names(seen: Sequence[Inspection]) -> None:
    """Print a table of names, with a row per holder."""
    if seen:
        head = ("NAME", "HOLDER", "FENCE", "HELD FOR", "EXPIRES IN", "WAITING", "ABANDONED")
        columns = len(head) if any(each.abandoned for each in seen) else len(head) - 1
        print_lines(head[:columns], [row[:columns] for each in seen for row in _rows(each)])
    elif sys.stdout.isatty():
        click.echo("Nothing is held or waited for.")


def _describe(seen: Inspection) -> list[str]:
    lines = [seen.name]
    for holder in seen.holders:
        since = datetime.now() - timedelta(seconds=holder.held_for)
        lines += [
            f"  held by     {owner_text(holder)}",
            f"  since       {since:%Y-%m-%d %H:%M:%S} ({duration(holder.held_for)} ago)",
            f"  fence       {holder.fence}",
            f"  expires in  {duration(holder.expires_in)} unless renewed"
            if holder.expires_in < math.inf
            else "  expires     never: the lock ends with its connection",
        ]
    if not seen.holders:
        lines.append("  free")
        if seen.fence:
            lines.append(f"  last fence  {seen.fence}")
    lines.append(f"  waiting     {seen.waiting}")
    if seen.abandoned:
        lines.append(
            "  abandoned   the previous holder did not release it: its work may be half done"
        )
    return lines


def _rows(seen: Inspection) -> list[tuple[str, ...]]:
    last = (str(seen.waiting), "yes" if seen.abandoned else "")
    if not seen.holders:  # the first waiter has not noticed yet that it may go ahead
        return [(seen.name, "", str(seen.fence), "", "", *last)]
    return [(seen.name, *_cells(holder, holder.held_for), *last) for holder in seen.holders]


def _cells(contender: Contender, seconds: float) -> tuple[str, ...]:
    durations = map(duration, (seconds, contender.expires_in))
    return (owner_text(contender), str(contender.fence), *durations)


def owner_text(contender: Contender) -> str:
    """The owner of a ticket, and how the ticket shares the name."""
    share, owner = contender.share, printable(str(contender.owner))
    if share == READING:
        return f"{owner}, reading"
    return f"{owner}, {share.weight} of {share.permits} permits" if share.group else owner


# --- JSON: docs/cli.md documents these keys, so they stay


def _summary(seen: Inspection) -> dict[str, Any]:
    return {
        "name": seen.name,
        "holders": [holder_json(each) for each in seen.holders],
        "waiting": seen.waiting,
        "fence": seen.fence,
        "abandoned": seen.abandoned,
    }


def holder_json(holder: Holder) -> dict[str, Any]:
    """A holder as JSON."""
    since = datetime.now(UTC) - timedelta(seconds=holder.held_for)
    return {
        **_contender_json(holder),
        "since": since.isoformat(timespec="milliseconds"),
        "held_for": round(holder.held_for, 3),
    }


def _contender_json(contender: Contender) -> dict[str, Any]:
    owner = contender.owner
    return {
        "host": owner.host,
        "pid": owner.pid,
        "label": owner.label,
        "fence": contender.fence,
        "expires_in": round(contender.expires_in, 3) if contender.expires_in < math.inf else None,
        "share": contender.share._asdict() if contender.share.group else None,
    }


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


# --- text


def duration(seconds: float) -> str:
    """A duration as text: 0.4 s, 12 s, 5 min 3 s, 2 h 10 min, 3 d 4 h."""
    if seconds == math.inf:
        return "never"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    total = round(seconds)
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    for (size, unit), (smaller_size, smaller) in pairwise(units):
        if total >= size:
            rest = total % size // smaller_size
            return f"{total // size} {unit} {rest} {smaller}" if rest else f"{total // size} {unit}"
    return f"{total} s"
