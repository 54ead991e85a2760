"""All samples as JSON, and whether two runs agree."""

from __future__ import annotations

import itertools
import json
import math
import statistics
from collections.abc import Iterator
from typing import Any

from benchmarks.rounds import Table

CLEARLY = 1.2
"""Smaller ratios count as equal, because a shared machine can't tell them apart."""


def as_json(facts: dict[str, Any], found: dict[str, list[Table]], skipped: dict[str, str]) -> str:
    everything = {
        "machine": facts,
        "skipped": skipped,
        "scenarios": {name: [_plain(table) for table in tables] for name, tables in found.items()},
    }
    return json.dumps(_finite(everything), indent=1, ensure_ascii=False)


def _plain(table: Table) -> dict[str, Any]:
    first, *others = table.samples
    return {
        "title": table.title,
        "unit": table.unit,
        "better": table.better,
        "ratios of": first,
        "median ratio": {label: statistics.median(table.ratios(label)) for label in others},
        "goals": dict(table.goals),
        "samples": table.samples,
        "details": table.details,
        "notes": table.notes,
    }


def _finite(value: Any) -> Any:
    """Replace infinity with None, because JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def disagreements(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """The pairs that one run ranks clearly in one order, and the other run clearly in the opposite order."""
    theirs = {table["title"]: table for table in _tables(other)}
    for table in _tables(one):
        if table["title"] not in theirs:
            continue
        here, there = _goodness(table), _goodness(theirs[table["title"]])
        for a, b in itertools.combinations([label for label in here if label in there], 2):
            before, after = here[a] / here[b], there[a] / there[b]
            if min(before, after) < 1 / CLEARLY and max(before, after) > CLEARLY:
                yield (
                    f"{table['title']}: {a} was {before:.2f} times as good as {b}, "
                    f"and then {after:.2f} times"
                )


def _tables(results: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for tables in results["scenarios"].values():
        yield from tables


def _goodness(table: dict[str, Any]) -> dict[str, float]:
    medians = {
        label: statistics.median(value for value in values if value is not None)
        for label, values in table["samples"].items()
        if any(values)
    }
    if table["better"] == "lower":
        return {label: 1 / value for label, value in medians.items() if value > 0}
    return {label: value for label, value in medians.items() if value > 0}
