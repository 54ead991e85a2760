"""Tables on stdout."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

import click

_FOLDED = ("NAME", "HOLDER", "WAITER", "WHAT")
"""Columns with long text. On a narrow terminal they get several lines; numbers stay in one."""


_ROOMY = 100
"""A terminal with fewer columns has no room for fences: `show` has them."""

_LEGIBLE = 20
"""Columns that text needs to say something, if it does not fit."""


def print_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """As `print_table`, but each row stays one line: on a terminal, long text ends in an ellipsis."""
    if not sys.stdout.isatty():
        print_table(head, rows)
        return
    if shutil.get_terminal_size().columns < _ROOMY and "FENCE" in head:
        at = head.index("FENCE")
        head, rows = _without(at, head), [_without(at, row) for row in rows]
    _print_rich(head, rows, one_line=True)


def _without(at: int, row: Sequence[str]) -> list[str]:
    return [cell for place, cell in enumerate(row) if place != at]


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under a head: with lines on a terminal, else in plain columns."""
    if sys.stdout.isatty():
        _print_rich(head, rows)
        return
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_rich(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, one_line: bool = False
) -> None:
    # Only here, because the import of rich takes longer than everything else.
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    console = Console()
    limits = _limits(head, rows, console.width) if one_line else {}
    for title in head:
        fold = title in _FOLDED and not one_line
        table.add_column(
            title,
            overflow="fold" if fold else "ellipsis",
            no_wrap=not fold,
            max_width=limits.get(title),
        )
    for row in rows:
        table.add_row(*map(Text, row))  # as Text, because a name may look like markup
    console.print(table)


def _limits(head: Sequence[str], rows: Sequence[Sequence[str]], columns: int) -> dict[str, int]:
    """How wide the columns with long text may be, for a row to fit into a line. The first one, which is the
    name, gets what the others can spare."""
    from rich.cells import cell_len

    widths = {
        title: max(map(cell_len, cells)) for title, *cells in zip(head, head, *rows, strict=True)
    }
    long = [title for title in head if title in _FOLDED]
    left = columns - sum(widths[title] for title in head if title not in long) - 2 * len(head) + 2
    limits: dict[str, int] = {}
    for place, title in enumerate(long, start=1):
        others = sum(min(widths[other], _LEGIBLE) for other in long[place:])
        limits[title] = max(len(title), min(widths[title], left - others))
        left -= limits[title]
    return limits
