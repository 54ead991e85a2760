"""The `fencelock` command: its subcommands, and how it reports errors."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import NoReturn

import click

import fencelock
from fencelock.cli import exits
from fencelock.cli.messages import say, start_log
from fencelock.cli.options import url_option
from fencelock.core.errors import FencelockError

_COMMANDS = {
    "acquire": "lease",
    "bench": "bench.command",
    "break": "break_:break_",
    "choose": "choose.command",
    "demo": "demo.command",
    "doctor": "doctor",
    "ls": "listing",
    "migrate": "migrate",
    "plan": "plan.command",
    "release": "lease",
    "renew": "lease",
    "run": "run",
    "schema": "schema",
    "serve": "serve",
    "show": "listing",
    "token": "token",
    "top": "top.command",
    "torture": "torture",
}
"""The module of each command. It is imported when the command is used: a script calls only one of them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[cmd_name].partition(":")
        command = getattr(import_module(f"fencelock.cli.{module}"), function or cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(
    cls=_Commands,
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
