"""`fencelock plan`: what contention to expect, from a model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from fencelock.cli.bench.command import measure, seconds_option
from fencelock.cli.options import checked, duration_option, json_option, url_option, usage_errors
from fencelock.core.durations import check_positive

if TYPE_CHECKING:
    from fencelock.planning.model import EngineSpeed


def _span_option(name: str, help: str, **others: Any) -> Callable[[Any], Any]:
    return duration_option(name, check=partial(check_positive, name), help=help, **others)


def _svg(text: str) -> Path:
    path = Path(text)
    if path.suffix != ".svg":
        raise ValueError(f"the chart must have a name that ends in .svg, not {text!r}")
    if not path.parent.is_dir():
        raise ValueError(f"the folder {str(path.parent)!r} does not exist: make it first")
    return path


def _number(value: float) -> float:
    if math.isnan(value):  # click takes it to be in every range
        raise ValueError("nan is not a number")
    return value


_PER_SECOND: dict[str, Any] = {
    "type": click.FloatRange(0, 1e12, min_open=True),
    "callback": checked(_number),
}


@click.command(
    epilog="""\b
Examples:
  fencelock plan --rate 200 --names 1000 --zipf --held 20ms --pair 300us
  fencelock bench redis://localhost --json > figures.json
  fencelock plan --rate 200 --held 5ms --held-p99 40ms --from figures.json --chart wait.svg"""
)
@click.option(
    "--rate", required=True, help="Locks per second, of all names together.", **_PER_SECOND
)
@_span_option("--held", "How long a lock is held, on average: 200ms, 5m.", required=True)
@_span_option(
    "--held-p99",
    "How long one lock in a hundred is held, or longer. The same as --held: always that long. "
    "Default: as if it were random (exponential).",
)
@click.option(
    "--names", type=click.IntRange(1, 10**9), default=1, show_default=True, help="How many names."
)
@click.option(
    "--zipf",
    type=click.FloatRange(0, 4),
    callback=checked(_number),
    is_flag=False,
    flag_value=1.0,
    default=0.0,
    help="Some names are wanted more than others: the n-th 1/n^EXPONENT as often as the first. Without "
    "a number 1. Default: all alike.",
    metavar="[EXPONENT]",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Over how many engines the names are spread.",
)
@click.option(
    "--from",
    "file",
    type=click.File(encoding="utf-8"),
    help="How fast the engine is: the output of `fencelock bench --json`. - is stdin.",
)
@url_option
@seconds_option
@_span_option("--pair", "How long it takes to acquire and release a free name.")
@_span_option("--pair-p99", "The same, one time in a hundred. Default: --pair.")
@_span_option("--hand-off", "From a release until the next waiter has it. Default: --pair.")
@click.option(
    "--capacity", "pairs_per_second", help="Locks per second that one engine can do.", **_PER_SECOND
)
@_span_option(
    "--operation",
    "The longest time in which your program can't renew a lease, for the ttl.",
    default="1s",
    show_default=True,
)
@click.option(
    "--chart",
    metavar="FILE.svg",
    callback=checked(_svg),
    help="Also draw the waits into this file.",
)
@json_option
def plan(
    rate: float,
    held: float,
    held_p99: float | None,
    names: int,
    zipf: float,
    partitions: int,
    file: IO[str] | None,
    url: str | None,
    seconds: float,
    operation: float,
    chart: Path | None,
    as_json: bool,
    **typed: Any,
) -> None:
    """Say how long callers will wait for locks, from a model.

    Give what you expect (--rate, --held, --names), and how fast the engine is: figures of `fencelock bench`
    (--from), a URL to measure now (--url), or figures that you type (--pair, …), which count more than
    measured ones. docs/scale.md says how right the model is, and how to grow.
    """
    # Only here, because the other commands don't need it.
    from fencelock.cli.plan.speed import typed_speed
    from fencelock.cli.plan.view import Plan
    from fencelock.planning.held import held_for
    from fencelock.planning.model import Model
    from fencelock.planning.names import Names

    with usage_errors():
        how_long = held_for(held, held_p99)
        label, measured = _measured(file, url, seconds)
        model = Model(Names(names, zipf), how_long, typed_speed(measured, typed), partitions)
    found = Plan(model, rate, operation, label)
    if chart is not None:
        try:
            chart.write_text(found.chart(), "utf-8")
        except OSError as error:
            raise click.UsageError(
                f"Can't write the chart to {str(chart)!r}: {error.strerror}."
            ) from error
    if as_json:
        click.echo(json.dumps(found.as_json(), indent=2, ensure_ascii=False))
    else:
        found.show()


def _measured(
    file: IO[str] | None, url: str | None, seconds: float
) -> tuple[str, EngineSpeed | None]:
    """The label of the engine and its speed, if it was or can be measured."""
    from fencelock.cli.plan.speed import read_speed, speed_of
    from fencelock.core.url import Url

    if file is not None and url is not None:
        raise click.UsageError("The speed was given twice: with --from and with --url.")
    if file is not None:
        return read_speed(file)
    if url is not None:
        return str(Url.parse(url)), speed_of(measure(url, seconds).figures)
    return "an engine as typed", None
