"""Tables as Markdown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from benchmarks.rounds import Table
from fencelock.cli.charts.draw import figure

HEADER = """\
| what | ours | against | theirs | ratio | middle half | goal |
|---|--:|---|--:|--:|--:|--:|"""


def rows(table: Table) -> Iterator[str]:
    """The rows of the big table, one per rival. The ratio is above 1 if we are ahead."""
    first, *others = table.samples
    what, ours = f"{table.title}, {table.unit}", figure(table.median(first))
    if not others:
        yield f"| {what} | {ours} | | | | | |"
    for label in others:
        ratios = table.ratios(label)
        goal = table.goals.get(label)
        cells = (
            what,
            ours,
            label,
            figure(table.median(label)),
            f"**{figure(statistics.median(ratios))}**",
            _middle_half(ratios),
            "" if goal is None else f"≥ {goal:g}",
        )
        yield f"| {' | '.join(cells)} |"
        what = ours = ""


def details(table: Table) -> Iterator[str]:
    """More measurements of each contestant."""
    columns = list(dict.fromkeys(column for row in table.details.values() for column in row))
    if not columns:
        return
    yield f"| {table.title} | {table.unit} | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * (len(columns) + 1)}"
    for label, row in table.details.items():
        cells = (figure(row[column]) if column in row else "" for column in columns)
        yield f"| {label} | {figure(table.median(label))} | {' | '.join(cells)} |"


def notes(table: Table) -> Iterator[str]:
    """The notes of a table."""
    for note in table.notes:
        yield f"- {table.title}: {note}"


def _middle_half(values: list[float]) -> str:
    if len(values) < 3 or any(map(math.isinf, values)):
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{figure(low)}–{figure(high)}"
