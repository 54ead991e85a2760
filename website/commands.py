"""Writes the reference of the command line: every command, from its own help."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from fencelock.cli.main import cli


def page() -> str:
    """The page of the reference: all commands and their options."""
    return (
        "\n\n".join(
            [
                "# Command line",
                *_described(
                    cli,
                    click.Context(cli, info_name="fencelock", help_option_names=["-h", "--help"]),
                ),
            ]
        )
        + "\n"
    )


def _described(command: click.Command, context: click.Context) -> Iterator[str]:
    path = context.command_path
    yield f"## {path} {{ #{path.replace(' ', '-')} }}"
    yield f"```console\n$ {path} {' '.join(command.collect_usage_pieces(context))}\n```"
    yield _prose(command.help)
    options = filter(None, (each.get_help_record(context) for each in command.get_params(context)))
    rows = [f"| {_names(names)} | {_cell(help)} |" for names, help in options]
    yield "\n".join(["| option | meaning |", "|---|---|", *rows])
    if command.epilog:
        yield _prose(command.epilog)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below
            yield from _described(below, click.Context(below, info_name=name, parent=context))


def _prose(help: str | None) -> str:
    """The help of a command as Markdown. Click leaves paragraphs that begin with \\b as they are."""
    paragraphs = inspect.cleandoc((help or "").partition("\f")[0]).split("\n\n")
    return "\n\n".join(
        f"```text\n{each[2:].rstrip()}\n```" if each.startswith("\b\n") else each
        for each in paragraphs
    )


def _names(names: str) -> str:
    return ", ".join(f"`{each}`" for each in names.replace("|", r"\|").split(", "))


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", r"\|")
