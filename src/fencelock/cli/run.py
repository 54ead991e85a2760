"""`fencelock run`: run a command under a lock, and stop it before its lease ends."""

from __future__ import annotations

from functools import partial
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import click

from fencelock.cli.messages import printable
from fencelock.cli.options import (
    checked,
    conflict_option,
    duration_option,
    metrics_file,
    name_argument,
    nonblock_option,
    quiet_option,
    timeout_option,
    url_option,
)
from fencelock.core.durations import check_keep, check_ttl


class _Run(click.Command):
    """Everything after `--` belongs to the command, so none of its options is taken for ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ours, command = args, None
        if "--" in args:
            at = args.index("--")
            ours, command = args[:at], args[at + 1 :]
        rest = super().parse_args(ctx, ours)
        if not ctx.resilient_parsing and not command:
            raise click.UsageError(
                "The command to run is missing: fencelock run NAME -- COMMAND…", ctx
            )
        ctx.params["command"] = command
        return rest

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "--", "COMMAND..."]


class RunOptions(NamedTuple):
    """What the user asked for."""

    name: str
    command: list[str]
    url: str | None
    timeout: float | None
    ttl: float | None
    grace: float | None
    label: str
    conflict: int
    """Exit code if the lock was not free in time."""
    quiet: bool
    period: float | None
    """Do nothing if the command was started within so many seconds."""
    metrics: Path | None
    """Write here how the run ended, for Prometheus."""

    def grace_within(self, ttl: float) -> float:
        """How long the command gets to end when its lease is lost, in seconds."""
        if self.grace is None:
            return min(10.0, ttl / 6)
        if not 0 <= self.grace < ttl / 2:  # also refuses nan
            raise ValueError(
                "--grace must be zero or more and less than half the ttl, so less than "
                f"{ttl / 2:g} s here, not {self.grace:g}: the command has to end before its lease does"
            )
        return self.grace


@click.command(
    cls=_Run,
    epilog="""\b
Examples:
  fencelock run nightly -- ./backup.sh --all
  fencelock run deploy -w 60 --ttl 20 -- make deploy
  fencelock run x -- sh -c 'curl -H "Fence: $FENCELOCK_FENCE" …'
  # If it runs already, do nothing and succeed:
  fencelock run nightly -n -q -E 0 -- ./backup.sh
  # The same line in the crontabs of ten machines runs the backup once:
  fencelock run nightly --once-per 20h -- ./backup.sh
  # Let Prometheus know how it went:
  fencelock run nightly --metrics /var/lib/node/nightly.prom -- ./backup.sh

\b
Exit codes: the exit code of the command, or:
  1      the lock was not free in time (-E chooses another code)
  64     the command line is wrong
  69     the engine can't be reached, or can't do what was asked
  119    the lease was lost, and the command was stopped
  126    the command is not executable
  127    the command was not found
  128+n  signal n ended the command, or the wait for the lock""",
)
@name_argument
@nonblock_option
@timeout_option
@duration_option(
    "--ttl",
    check=check_ttl,
    help="How long the lock stays taken if this machine dies. While the command runs, it is renewed. "
    "Default: 30s.",
)
@conflict_option
@duration_option(
    "--grace",
    check=float,  # what is allowed depends on the ttl
    help="Time between SIGTERM and SIGKILL when the lease is lost. "
    "Less than half of the ttl. Default: a sixth of the ttl, at most 10s.",
)
@duration_option(
    "--once-per",
    "period",
    check=partial(check_keep, "--once-per"),
    help="Do nothing, and succeed, if the command runs now or was started within this time, e.g. 1h. "
    "A run that failed does not count.",
)
@click.option(
    "--metrics",
    metavar="FILE",
    callback=checked(metrics_file),
    help="At the end, write what the run was like to this file, for the textfile collector of "
    "Prometheus's node_exporter. It must end in .prom.",
)
@click.option("--label", help="How `ls` and `show` name you. Default: the command's name.")
@quiet_option
@url_option
@click.pass_context
def run(
    context: click.Context,
    /,
    nonblock: bool,
    timeout: float | None,
    label: str | None,
    **others: Any,
) -> None:
    """Run a command while holding the lock NAME.

    Waits for the lock, in order of arrival, and releases it when the command ends. The lease is renewed
    while the command runs. If that fails, the command and all its children get SIGTERM and then SIGKILL
    *before* the lease ends and another process can get the lock.

    The command is started without a shell. Its environment has FENCELOCK_FENCE, FENCELOCK_NAME and
    FENCELOCK_OWNER, and FENCELOCK_ABANDONED=1 if the previous holder did not release the lock. Signals
    are passed on to the command. During the wait for the lock, a signal ends the wait.
    """
    # Only here: --help and wrong options don't need it.
    from fencelock.cli.running import run_under_lock

    if nonblock and timeout is not None:
        raise click.UsageError("-n does not wait: leave out -w.", context)
    if others["period"] is not None and (nonblock or timeout is not None):
        raise click.UsageError("--once-per does not wait: leave out -n and -w.", context)
    if nonblock or others["period"] is not None:
        timeout = 0.0
    if label is None:
        label = printable(PurePath(others["command"][0]).name)[:200]
    context.exit(run_under_lock(RunOptions(timeout=timeout, label=label, **others)))
