"""`fencelock run`: run a command under a lock, and stop it before its lease ends."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

import click

from fencelock.cli import exits
from fencelock.cli.messages import printable
from fencelock.cli.options import checked, name_argument, seconds, url_option
from fencelock.core.durations import check_keep, check_timeout, check_ttl


class _Run(click.Command):
    """Everything after `--` is the command's own, so that no option can be mistaken for ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, command = args, None
        if "--" in args:
            at = args.index("--")
            ours, command = args[:at], args[at + 1 :]
        rest = super().parse_args(ctx, ours)
        if not ctx.resilient_parsing and not command:
            raise click.UsageError("What to run is missing: fencelock run NAME -- COMMAND…", ctx)
        ctx.params["command"] = command
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "COMMAND..."]


@click.command(
    cls=_Run,
    epilog="""\b
Examples:
  fencelock run nightly -- ./backup.sh --all
  fencelock run nightly -n -E 0 -- ./backup.sh      not now if it runs already: no error
  fencelock run nightly --once-per 20h -- ./backup.sh   in ten crontabs: runs once
  fencelock run deploy -w 60 --ttl 20 -- make deploy
  fencelock run x -- sh -c 'curl -H "Fence: $FENCELOCK_FENCE" …'

\b
Exit codes: the command's own, 128+n when it was ended by signal n,
  1    the lock was not free in time (-E chooses another)
  64   the command line makes no sense
  69   the engine can't be reached or can't do that
  119  the lease was lost while the command ran: it was stopped
  126  the command is not executable    127  it was not found""",
)
@name_argument
@click.option("-n", "--nonblock", is_flag=True, help="Don't wait if it is not free: fail at once.")
@click.option(
    "-w",
    "--timeout",
    type=float,
    metavar="SECONDS",
    callback=checked(check_timeout),
    help="Wait no longer than this. Default: for ever.",
)
@click.option(
    "--ttl",
    type=float,
    metavar="SECONDS",
    callback=checked(check_ttl),
    help="How long others wait if this machine dies. Renewed while the command runs. Default: 30.",
)
@click.option(
    "-E",
    "--conflict-exit-code",
    "conflict",
    type=click.IntRange(0, 255),
    metavar="N",
    default=exits.CONFLICT,
    show_default=True,
    help="Exit code if the lock was not free in time.",
)
@click.option(
    "--grace",
    type=float,
    metavar="SECONDS",
    help="Time between SIGTERM and SIGKILL when the lease is lost. "
    "Less than half the ttl; default: a sixth of it, at most 10.",
)
@click.option(
    "--once-per",
    "period",
    metavar="DURATION",
    callback=checked(lambda text: check_keep("--once-per", seconds(text))),
    help="Not if it has run in this time, counted from its beginning, or runs now: e.g. 1h. A run that "
    "fails does not count. Not to run is no error.",
)
@click.option("--label", help="Who you are, in listings. Default: the command's name.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing when the lock was not free in time.")
@url_option
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run a command while holding the lock NAME.

    Waits for the lock, in order of arrival, and gives it back when the command ends. The lease is
    renewed as long as the command runs. If that fails, the command and all its children get SIGTERM
    and then SIGKILL *before* the lease ends and someone else may have it.

    The command is started as it is, without a shell. It finds FENCELOCK_FENCE, FENCELOCK_NAME and
    FENCELOCK_OWNER in its environment, and FENCELOCK_ABANDONED=1 if the previous holder did not
    release. Signals are passed on to it; while waiting they end the waiting.
    """
    if options["nonblock"]:
        if options["timeout"] is not None:
            raise click.UsageError("-n does not wait, so there is nothing to say with -w.", context)
        options["timeout"] = 0.0
    if options["period"] is not None:
        if options["timeout"] is not None:
            raise click.UsageError("--once-per does not wait: leave out -n and -w.", context)
        options["timeout"] = 0.0
    context.exit(_run(**options))


def _run(
    *,
    name: str,
    command: list[str],
    timeout: float | None,
    ttl: float | None,
    conflict: int,
    grace: float | None,
    label: str | None,
    quiet: bool,
    url: str | None,
    nonblock: bool,
    period: float | None,
) -> int:
    # Not needed for --help and its like.
    from fencelock.cli.holding import Job, carry_out

    return carry_out(
        Job(
            url=url,
            name=name,
            command=command,
            timeout=timeout,
            ttl=ttl,
            grace=grace,
            label=_default_label(command) if label is None else label,
            conflict=conflict,
            quiet=quiet,
            period=period,
        )
    )


def _default_label(command: list[str]) -> str:
    return printable(PurePath(command[0]).name)[:200]
