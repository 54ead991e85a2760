"""`fencelock bench`: measure an engine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from fencelock.cli.exits import exit_on_signals
from fencelock.cli.messages import say, say_warnings
from fencelock.cli.options import (
    between,
    duration_option,
    engine_argument,
    json_option,
    only_url,
    open_client,
    url_option,
)
from fencelock.cli.tables import print_table

if TYPE_CHECKING:
    from fencelock.cli.bench.figures import Figure
    from fencelock.cli.bench.steps import Show
    from fencelock.engines.contract import Traits


seconds_option = duration_option(
    "--seconds",
    check=between(1, 300),
    default="30s",
    show_default=True,
    help="About how long to measure. The start of processes takes a little more.",
)


@click.command(
    epilog="""\b
Examples:
  fencelock bench redis://localhost
  FENCELOCK_URL=postgresql://me:secret@db1/app fencelock bench --json > figures.json"""
)
@engine_argument
@seconds_option
@json_option
@url_option
def bench(engine: str | None, seconds: float, as_json: bool, url: str | None) -> None:
    """Measure an engine from this machine, and say what to expect from it.

    It measures how long a lock takes, free and contended, how many locks per second are possible, and how
    many leases one process can keep. Its names have a random prefix, and it releases them all, also after
    Ctrl-C. It uses all the capacity of the engine: other users of the engine will notice.

    Put a URL with a password into FENCELOCK_URL: other users of this machine can see command lines.
    """
    # Only here, because the other commands don't need it.
    from fencelock.cli.bench.expect import expectations, shortest_ttl, warnings
    from fencelock.core.url import Url

    where = only_url(engine, url)
    measured = measure(where, seconds)
    traits, figures = measured.traits, measured.figures
    found = {
        "engine": str(Url.parse(where)),
        "figures": figures,
        "shortest_ttl": shortest_ttl(figures) if traits.leases_expire else None,
        "expect": expectations(traits, figures),
        "warnings": warnings(traits, figures, measured.overlaps),
    }
    if as_json:
        click.echo(json.dumps(_as_json(found, traits), indent=2, ensure_ascii=False))
    else:
        _print(found)


class Measured(NamedTuple):
    """What was measured at an engine."""

    traits: Traits
    figures: dict[str, Figure]
    overlaps: int


def measure(url: str, seconds: float) -> Measured:
    """Measure an engine, and show the progress."""
    from fencelock.cli.bench.steps import STEPS, Bench

    say_warnings()
    with exit_on_signals(), open_client(url) as client:
        # If the engine can't be reached, this raises before anything is started.
        client.inspect("fencelock-bench", limit=0)
        with _progress(STEPS) as show:
            measuring = Bench(client, url, seconds, show)
            figures = measuring.run()
        return Measured(client.traits, figures, measuring.overlaps)


@contextmanager
def _progress(steps: int) -> Iterator[Show]:
    """Shows the progress on stderr: a bar on a terminal, which disappears at the end, or a line per step."""
    if not sys.stderr.isatty():
        yield lambda what, step, part: None if part else say(f"measuring {what}")
        return
    # Only here, because the import of rich takes longer than everything else.
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps)
        yield lambda what, step, part: bar.update(task, description=what, completed=step + part)


def _as_json(found: dict[str, Any], traits: Traits) -> dict[str, Any]:
    """docs/cli.md documents these keys, so they stay."""
    figures = [
        {
            key: float(f"{value:.4g}") if isinstance(value, float) else value
            for key, value in figure._asdict().items()
        }
        for figure in found["figures"].values()
    ]
    return {**found, "figures": figures, "traits": traits._asdict()}


def _print(found: dict[str, Any]) -> None:
    from fencelock.cli.bench.expect import rough, short_duration

    click.echo(f"{found['engine']}, from this machine")
    click.echo()
    print_table(
        ("WHAT", "USUALLY (P50)", "SLOW (P99)", "PER SECOND"),
        [
            (each.what, *map(short_duration, (each.p50, each.p99)), rough(each.per_second))
            for each in found["figures"].values()
        ],
    )
    for title, lines in (("What to expect", "expect"), ("Warnings", "warnings")):
        if found[lines]:
            click.echo()
            click.secho(title, bold=True)
            for line in found[lines]:
                click.echo(click.wrap_text(f"- {line}", 98, "  ", "    "))
