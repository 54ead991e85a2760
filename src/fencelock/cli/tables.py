"""Tables on stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

_FOLDED = ("NAME", "HOLDER", "WAITER", "WHAT")
"""Columns with long text. On a narrow terminal they get several lines; numbers stay in one."""


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head: with lines on a terminal, else in plain columns."""
    if sys.stdout.isatty():
        _print_rich(head, rows)
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_rich(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    # Only here, because the import of rich takes longer than everything else.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for title in head:
        table.add_column(title, overflow="fold", no_wrap=title not in _FOLDED)
    for row in rows:
        table.add_row(*map(Text, row))  # as Text, because a name may look like markup
    Console().print(table)
