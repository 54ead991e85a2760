"""`fencelock torture`: break an engine on purpose, and see what happens."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencelock.cli import exits
from fencelock.cli.messages import say
from fencelock.cli.options import (
    between,
    checked,
    duration_option,
    engine_argument,
    only_url,
    url_option,
    usage_errors,
)
from fencelock.core.durations import check_ttl
from fencelock.core.names import check_name
from fencelock.core.url import Url

if TYPE_CHECKING:
    from fencelock.torture.real.lines import Line
    from fencelock.torture.real.own import OwnEngine
    from fencelock.torture.real.plan import Plan

_PRIMITIVES = ("lock", "semaphore", "rwlock", "election")
_ENGINES = ("sqlite", "redis", "redlock", "etcd", "zookeeper", "postgresql", "mysql")
_COLOURS = {"held": "green", "broken": "red", "not exercised": "yellow"}


def _kinds(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()] if value else []


@click.command(
    epilog="""\b
Examples:
  fencelock torture --self redis --report redis.html
  fencelock torture redis+sentinel://s1,s2,s3/main --seconds 300 --yes
  fencelock torture etcd://e1,e2,e3 --fault 'ssh e1 pkill -STOP etcd' --heal 'ssh e1 pkill -CONT etcd'"""
)
@engine_argument
@click.option(
    "--self", "own", type=click.Choice(_ENGINES), help="Start private servers, and torture those."
)
@duration_option(
    "--seconds",
    check=between(1, 86_400),
    default="60s",
    show_default=True,
    help="For how long faults happen.",
)
@click.option("--primitive", type=click.Choice(_PRIMITIVES), default="lock", show_default=True)
@click.option("--permits", type=click.IntRange(2, 100), default=3, show_default=True, metavar="N",
              help="Of a semaphore.")  # fmt: skip
@duration_option(
    "--ttl",
    check=check_ttl,
    default="2s",
    show_default=True,
    help="The ttl of the locks.",
)
@click.option("--processes", type=click.IntRange(2, 64), default=6, show_default=True, metavar="N")
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 10_000),
    default=60.0,
    show_default=True,
    metavar="N",
    help="At most so many turns per second, of all processes together.",
)
@click.option(
    "--faults", callback=_kinds, metavar="KINDS", help="Only these, with commas. --list shows all."
)
@click.option("--list", "listing", is_flag=True, help="List the kinds of faults, and end.")
@click.option(
    "--storage",
    metavar="URL",
    help="Where the protected numbers are: sqlite, postgresql or mysql. Default: a temporary file.",
)
@click.option("--bare/--no-bare", default=True, help="Keep the same numbers without a guard, too.")
@click.option("--fault", "break_with", metavar="CMD", help="Your own fault of a server.")
@click.option("--heal", "heal_with", metavar="CMD", help="What heals it.")
@click.option(
    "--prefix",
    default="fencelock-torture",
    show_default=True,
    callback=checked(check_name),
    help="All names begin with it.",
)
@click.option("--seed", type=int, metavar="N", help="Chooses the faults in the same way again.")
@click.option(
    "--report", type=click.Path(dir_okay=False, path_type=Path), help="Write a report as HTML."
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all that happened as JSON, one object per line.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask before another machine is tortured.")
@url_option
def torture(
    engine: str | None,
    url: str | None,
    own: str | None,
    seconds: float,
    listing: bool,
    faults: list[str],
    storage: str | None,
    break_with: str | None,
    heal_with: str | None,
    prefix: str,
    seed: int | None,
    report: Path | None,
    history: Path | None,
    as_json: bool,
    yes: bool,
    **options: Any,
) -> int:
    """Break the engine at URL on purpose: does a lock there keep its promises?

    Processes add one to numbers behind a guard, under locks, while they are stopped, killed and cut off.
    The servers of URL are not touched. With --self, private servers are started and broken, too.

    Exit code 0: every promise was kept. 1: one was broken. 2: no fault hit a holder, so nothing is proved.
    """
    from fencelock.torture.real.faults import KINDS
    from fencelock.torture.real.plan import Plan

    if listing:
        for fault in KINDS.values():
            click.echo(f"{fault.kind:24}{fault.title}")
        return 0
    if strange := [each for each in faults if each not in KINDS]:
        raise click.UsageError(f"there is no fault {strange[0]!r}, but: {', '.join(KINDS)}.")
    if own and (engine or url):
        raise click.UsageError("give a URL or --self, not both: --self starts servers of its own.")
    if bool(break_with) != bool(heal_with):
        raise click.UsageError("--fault and --heal belong together: what is broken must be healed.")
    target = "" if own else only_url(engine, url)
    if not yes:
        _ask(target, storage)
    for path in (report, history):
        _check_folder(path)
    logging.getLogger("fencelock").addHandler(logging.NullHandler())

    with exits.exit_on_signals(), tempfile.TemporaryDirectory(prefix="fencelock-torture-") as made:
        folder = Path(made)
        folder.chmod(0o755)  # a server may run as another user
        plan = Plan(
            run=secrets.token_hex(4),
            storage=storage or f"sqlite:///{folder}/numbers.db",
            seed=secrets.randbits(32) if seed is None else seed,
            seconds=seconds,
            faults=tuple(faults),
            prefix=prefix,
            break_with=break_with or "",
            heal_with=heal_with or "",
            **options,
        )
        lines = _torture(plan, target, own, folder)
    return _tell(lines, report=report, history=history, as_json=as_json)


def _torture(plan: Plan, url: str, own: str | None, folder: Path) -> list[Line]:
    from fencelock.torture.real.judge import judge
    from fencelock.torture.real.lines import lines
    from fencelock.torture.real.own import own_engine
    from fencelock.torture.real.run import torture as run

    journals = folder / "journals"
    journals.mkdir()
    with ExitStack() as running:
        servers: OwnEngine | None = None
        if own is not None:
            say(f"starting {own}")
            servers = running.enter_context(own_engine(own, folder / "servers"))
            url = servers.url
        with usage_errors():
            outcome = run(plan, url, journals, own=servers, say=_progress())
    for skipped in outcome.skipped:
        if skipped.kind != "command":
            say(f"not possible here: {skipped.kind}: {skipped.why}")
    depth = "url" if own is None else "self"
    kind = own or Url.parse(url).scheme
    return list(lines(outcome.history, judge(outcome.history), kind, url, depth))


def _progress() -> Any:
    """Shows each fault on a terminal. In a log, it would only be noise."""
    return say if sys.stderr.isatty() else lambda text: None


def _tell(lines: list[Line], *, report: Path | None, history: Path | None, as_json: bool) -> int:
    from fencelock.torture.report.page import write_report
    from fencelock.torture.report.summary import summary

    if history is not None:
        history.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    if report is not None:
        write_report(lines, report)
    verdict = lines[-1]
    if as_json:
        click.echo(json.dumps(verdict | {"promises": list(_promises(lines))}, indent=2))
    else:
        head, *rest = summary(lines)
        click.secho(head, fg=_COLOURS[verdict["verdict"]], bold=True)
        for line in rest:
            click.echo(line)
    codes = {"held": 0, "broken": exits.WORSE, "not exercised": exits.NOT_EXAMINED}
    return codes[verdict["verdict"]]


def _promises(lines: list[Line]) -> Iterator[Line]:
    for line in lines:
        if line["type"] == "promise":
            yield {key: value for key, value in line.items() if key != "type"}


def _ask(url: str, storage: str | None) -> None:
    """Ask before anything is done to another machine."""
    from fencelock.torture.real.addresses import is_local

    for each in (url, storage):
        if each:
            with usage_errors():
                where = Url.parse(each)
            if not is_local(each):
                click.confirm(
                    f"{where} is not on this machine. Torture takes locks there, with names of its own. "
                    "Go on?",
                    abort=True,
                    err=True,
                )


def _check_folder(path: Path | None) -> None:
    """A run takes minutes: find out first whether its result can be written."""
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"the folder {str(path.parent)!r} does not exist: make it first.")
