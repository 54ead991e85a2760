"""The `fencelock` command: its subcommands, and how it reports errors."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

import click

import fencelock
from fencelock.cli import exits
from fencelock.cli.bench.command import bench
from fencelock.cli.break_ import break_
from fencelock.cli.choose.command import choose
from fencelock.cli.demo.command import demo
from fencelock.cli.doctor import doctor
from fencelock.cli.lease import acquire, release, renew
from fencelock.cli.listing import ls, show
from fencelock.cli.messages import say, start_log
from fencelock.cli.migrate import migrate
from fencelock.cli.options import url_option
from fencelock.cli.plan.command import plan
from fencelock.cli.run import run
from fencelock.cli.schema import schema
from fencelock.cli.serve import serve
from fencelock.cli.token import token
from fencelock.cli.top.command import top
from fencelock.cli.torture import torture
from fencelock.core.errors import FencelockError


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  fencelock run nightly -- ./backup.sh
  fencelock ls 'order:*'
  FENCELOCK_URL=redis://db1 fencelock show nightly""",
)
@url_option
@click.version_option(fencelock.__version__, prog_name="fencelock", message="%(prog)s %(version)s")
def cli(url: str | None) -> None:
    """Distributed locks: run a command under a lock, list and watch locks, break a lock.

    Exit code 64 means that the command line is wrong, 69 that the engine can't be reached or can't do
    what was asked. `fencelock run --help` lists more exit codes.
    """


for command in (
    *(run, acquire, renew, release, ls, show, top, break_, schema, migrate, bench),
    *(choose, doctor, plan, torture, serve, token, demo),
):
    cli.add_command(command)


def main() -> NoReturn:
    """Run the command line and exit. An error is one line on stderr, never a traceback."""
    try:
        if level := os.environ.get("FENCELOCK_LOG"):
            start_log(level)
        result = cli.main(prog_name="fencelock", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except (Exception, KeyboardInterrupt) as error:
        _explain(error)
        code = exits.code_of(error)
    sys.exit(code)


def _explain(error: BaseException) -> None:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
    elif isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "fencelock"
        say(f"{error.format_message()} See: {command} --help")
    elif isinstance(error, FencelockError):
        say(str(error))
    elif exits.code_of(error) == exits.INTERNAL:
        if os.environ.get("FENCELOCK_DEBUG"):
            import traceback

            traceback.print_exception(error)
        say(
            f"this is a bug in fencelock, please report it: {type(error).__name__}: {error} "
            "(FENCELOCK_DEBUG=1 shows where)"
        )
