"""Writes the folder of a report: report.md, one SVG per chart, results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report.facts import headline
from benchmarks.report.pictures import PICTURES, draw_all
from benchmarks.report.results import as_json
from benchmarks.report.tables import HEADER, details, notes, rows
from benchmarks.rounds import Table

_HOW = (
    "Medians of the rounds; each ratio is the median of the ratios within one round. A ratio above 1 means "
    "that Fencelock is ahead. A *limit* is the least work that does the job, with no safety at all."
)


def write(
    folder: Path,
    facts: dict[str, Any],
    found: Mapping[str, Sequence[Table]],
    skipped: Mapping[str, str],
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tables = [table for some in found.values() for table in some]
    drawn = dict(draw_all(tables))
    for name, picture in drawn.items():
        (folder / f"{name}.svg").write_text(picture, "utf-8")
    plain = {name: list(some) for name, some in found.items()}
    (folder / "results.json").write_text(as_json(facts, plain, dict(skipped)) + "\n", "utf-8")
    lines = _lines(facts, tables, list(drawn), skipped)
    (folder / "report.md").write_text("\n".join(lines) + "\n", "utf-8")


def _lines(
    facts: dict[str, Any],
    tables: Sequence[Table],
    drawn: Sequence[str],
    skipped: Mapping[str, str],
) -> Iterator[str]:
    yield from ("# Benchmark", "", headline(facts), "", _HOW, "")
    for name in drawn:
        yield from (f"![{PICTURES[name].title}]({name}.svg)", "")
    yield from ("## Ratios", "", HEADER)
    for table in tables:
        yield from rows(table)
    yield from ("", "## Details", "")
    for table in tables:
        if lines := list(details(table)):
            yield from (*lines, "")
    yield from ("## Notes", "")
    yield from (f"- {name} was skipped: {reason}" for name, reason in skipped.items())
    for table in tables:
        yield from notes(table)
