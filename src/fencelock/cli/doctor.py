"""`fencelock doctor`: what a lock on an engine is really good for."""

from __future__ import annotations

import json
import logging
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from fencelock.cli import exits
from fencelock.cli.messages import printable, say
from fencelock.cli.options import (
    duration_option,
    engine_argument,
    json_option,
    only_url,
    url_option,
    usage_errors,
)
from fencelock.core.durations import check_positive, check_ttl
from fencelock.core.errors import FencelockError
from fencelock.core.url import Url

if TYPE_CHECKING:
    from fencelock.doctor import Check, Report, Verdict

_WORDS = {"ok": "ok", "advice": "advice", "unknown": "can't tell", "bad": "BAD"}
_COLOURS = {"ok": "green", "advice": "cyan", "unknown": "yellow", "bad": "red"}
_VERDICT_COLOURS = {"not safe": "red", "efficiency": "yellow", "correctness": "green"}
_STATUS_WIDTH, _ID_WIDTH = 12, 14


@click.command(
    epilog="""\b
Examples:
  fencelock doctor redis://db1
  fencelock doctor --ttl 5 --probe redis+sentinel://s1,s2,s3/main
  fencelock doctor --require correctness --json | jq .next"""
)
@engine_argument
@click.option(
    "--require",
    type=click.Choice(["efficiency", "correctness"]),
    help="End with 1 if a lock here is good for less.",
)
@click.option(
    "--accept",
    multiple=True,
    metavar="CHECK",
    help="Take this check as ok: you know that it is. May be given several times.",
)
@duration_option(
    "--ttl",
    check=check_ttl,
    help="The ttl of your locks. Default: that of the engine.",
)
@duration_option(
    "--timeout",
    check=partial(check_positive, "timeout"),
    default="2s",
    show_default=True,
    help="How long each request may take.",
)
@click.option("--probe", is_flag=True, help="Also take a lock and hand it over.")
@click.option(
    "-a", "--all", "everything", is_flag=True, help="Explain the checks that are ok, too."
)
@json_option
@url_option
def doctor(
    engine: str | None,
    url: str | None,
    require: Verdict | None,
    accept: tuple[str, ...],
    ttl: float | None,
    timeout: float,
    probe: bool,
    everything: bool,
    as_json: bool,
) -> int:
    """Examine what stands behind URL: what is a lock there really good for?

    The verdict is "correctness", "efficiency" or "not safe". Nothing is changed, unless --probe is given.

    Exit code 0: all is well, or as good as required. 1: it is worse than required, or without --require
    a check is bad. 2: it could not be examined, or a check on which the required verdict depends could
    not be made.
    """
    target = only_url(engine, url)
    try:
        report = _examine(target, ttl=ttl, timeout=timeout, probe=probe)
    except FencelockError as error:
        if as_json:
            failure = {"verdict": None, "error": str(error), "exit_code": exits.NOT_EXAMINED}
            click.echo(json.dumps(failure, ensure_ascii=False))
        say(str(error))
        return exits.NOT_EXAMINED
    from fencelock.doctor import rules_of

    # All that it may find some day: a pipeline must not break when a replica is taken away.
    engines = (report.engine, *(part.engine for part in report.parts))
    known = {rule.id for engine in engines for rule in rules_of(engine)}
    if strange := [each for each in accept if each not in known]:
        raise click.UsageError(
            f"there is no check {strange[0]!r} here, but: {', '.join(sorted(known))}"
        )
    report = report.accepting(accept)
    code = _code(report, require)
    if as_json:
        shown = {"url": str(Url.parse(target)), **report.as_json(), "exit_code": code}
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
    else:
        for line in _shown(report, str(Url.parse(target)), everything):
            click.echo(line)
        for line in _judged(report, require, code):
            click.echo(line)
    return code


def _examine(url: str, *, ttl: float | None, timeout: float, probe: bool) -> Report:
    from fencelock.client import Client

    # What the library warns of is in the report.
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    with usage_errors():
        client = Client(url)
    with client, usage_errors():
        return client.diagnose(ttl=ttl, timeout=timeout, probe=probe)


def _code(report: Report, require: Verdict | None) -> int:
    from fencelock.doctor.verdict import is_below

    if require is None:
        return exits.WORSE if any(each.status == "bad" for each in report.all_checks) else 0
    if is_below(report.verdict, require):
        return exits.WORSE
    return exits.NOT_EXAMINED if report.unknown(require) else 0


# --- for people: at most 80 columns on a narrow terminal, and the verdict at the end, where the eye is


def _width() -> int:
    return min(shutil.get_terminal_size((80, 24)).columns, 100) if sys.stdout.isatty() else 80


def _shown(report: Report, where: str, everything: bool) -> Iterator[str]:
    yield click.style(printable(where), bold=True)
    yield ""
    yield from _checks(report.checks, everything)
    for part in report.parts:
        yield ""
        yield click.style(f"{printable(part.engine)} behind it, as the service sees it", bold=True)
        yield ""
        yield from _checks(part.checks, everything)
    yield ""
    from fencelock.doctor.measures import in_words

    if (latency := report.latency) is not None:
        p50, p99 = in_words(latency.p50), in_words(latency.p99)
        yield from _row("", "round trip", f"p50 {p50}, p99 {p99} (of {latency.requests})")
    for clock in report.clocks:
        offset = f"{in_words(clock.offset, sign=True)} ± {in_words(clock.uncertainty)}"
        yield from _row("", "clock", f"{offset}  {clock.where}")
    if report.ttl is not None:
        yield from _row("", "ttl", f"{report.ttl:g} s or more makes sense from here")


def _checks(checks: Sequence[Check], everything: bool) -> Iterator[str]:
    """What is not well, and the names of what is."""
    for check in checks:
        if everything or check.status != "ok":
            yield from _check_lines(check)
    fine = [check.id for check in checks if check.status == "ok"]
    if fine and not everything:
        yield from _row("ok", "", ", ".join(fine))


def _check_lines(check: Check) -> Iterator[str]:
    yield from _row(check.status, check.id, check.detail)
    yield from _row("", "", check.why)
    if check.mend:
        yield from _row("", "", f"→ {check.mend}")


def _row(status: str, title: str, text: str) -> Iterator[str]:
    """Text beside a status and a title, in as many lines as it needs."""
    word = click.style(f"{_WORDS.get(status, ''):{_STATUS_WIDTH}}", fg=_COLOURS.get(status))
    indent = _STATUS_WIDTH + (_ID_WIDTH if title or status != "ok" else 0)
    first = word + f"{title:{indent - _STATUS_WIDTH}}"
    wrapped = textwrap.wrap(
        printable(text), _width() - indent, break_long_words=True, break_on_hyphens=False
    )
    for at, line in enumerate(wrapped or [""]):
        yield (first if at == 0 else " " * indent) + line


def _judged(report: Report, require: Verdict | None, code: int) -> Iterator[str]:
    from fencelock.doctor.verdict import MEANING

    yield ""
    colour = _VERDICT_COLOURS[report.verdict]
    yield click.style(f"{report.verdict}: {MEANING[report.verdict]}", fg=colour, bold=True)
    if report.next:
        yield from textwrap.wrap(f"→ {report.next}", _width(), subsequent_indent="  ")
    if require is not None and code == exits.NOT_EXAMINED:
        ids = ", ".join(check.id for check in report.unknown(require))
        text = f"Not known: {ids}. Find out, and then use --accept to say that it is well."
        yield from textwrap.wrap(text, _width())
