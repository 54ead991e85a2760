"""`fencelock bench`: what to expect from the engine that you have."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli.ending import terminable
from fencelock.cli.messages import say_warnings
from fencelock.cli.options import json_option, open_client, url_option
from fencelock.cli.tables import print_table

if TYPE_CHECKING:
    from fencelock.cli.bench.figures import Figure
    from fencelock.engines.contract import Traits


@click.command(
    epilog="""\b
Examples:
  fencelock bench redis://localhost
  FENCELOCK_URL=postgresql://me:secret@db1/app fencelock bench --json > figures.json"""
)
@click.argument("engine", metavar="[URL]", required=False)
@click.option(
    "--seconds",
    type=click.FloatRange(1, 300),
    default=30.0,
    show_default=True,
    help="About how long it takes; a little more, for processes have to be started.",
)
@json_option
@url_option
def bench(engine: str | None, seconds: float, as_json: bool, url: str | None) -> None:
    """Measure an engine from here, and say what to expect from it.

    How long a lock takes, free and contended, between processes; how many a second; how many leases one
    process can keep. It uses names of its own, with a random prefix, and releases them all, also after
    Ctrl-C. While it runs it asks for all that the engine can give: others will notice.

    A URL with a password belongs into FENCELOCK_URL: other users of the machine can see command lines.
    """
    # Only here, because the other commands need none of it.
    from fencelock.cli.bench.expect import expectations, shortest_ttl, warnings
    from fencelock.cli.bench.progress import progress
    from fencelock.cli.bench.steps import Bench
    from fencelock.client import default_url
    from fencelock.core.url import Url

    if engine is not None and url is not None:
        raise click.UsageError("The engine was given twice: as an argument and with --url.")
    where = engine or url or default_url()
    say_warnings()
    with terminable(), open_client(where) as client:
        traits = client.traits
        # If the engine is not there, nothing else needs to be said.
        client.inspect("fencelock-bench", limit=0)
        with progress() as bar, Bench(client, where, seconds, bar) as measuring:
            figures = {each.key: each for each in measuring.figures()}
    found = {
        "engine": str(Url.parse(where)),
        "figures": figures,
        "shortest_ttl": shortest_ttl(figures) if traits.leases_expire else None,
        "expect": expectations(traits, figures),
        "warnings": warnings(traits, figures, measuring.overlaps),
    }
    if as_json:
        click.echo(json.dumps(_for_programs(found, traits), indent=2, ensure_ascii=False))
    else:
        _for_people(found)


def _for_programs(found: dict[str, Any], traits: Traits) -> dict[str, Any]:
    """These keys are documented in docs/cli.md, and stay."""
    figures = [_rounded(each) for each in found["figures"].values()]
    return {**found, "figures": figures, "traits": traits._asdict()}


def _rounded(figure: Figure) -> dict[str, Any]:
    return {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in figure._asdict().items()
    }


def _for_people(found: dict[str, Any]) -> None:
    from fencelock.cli.bench.expect import rough, span

    click.echo(f"{found['engine']}, from this machine")
    click.echo()
    print_table(
        ("WHAT", "USUALLY (P50)", "SLOW (P99)", "PER SECOND"),
        [
            (each.what, span(each.p50), span(each.p99), rough(each.per_second))
            for each in found["figures"].values()
        ],
    )
    for title, lines in (("What to expect", "expect"), ("Warnings", "warnings")):
        if found[lines]:
            click.echo()
            click.secho(title, bold=True)
            for line in found[lines]:
                click.echo(click.wrap_text(f"- {line}", 98, "  ", "    "))
