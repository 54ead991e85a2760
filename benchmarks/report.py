"""What a run found out: Markdown for people, JSON for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from benchmarks.rounds import Table


def machine(redis_version: str | None) -> dict[str, Any]:
    """Where it ran, in general terms."""
    packages = ("redis", "hiredis", "apsw", "filelock", "grpcio", "etcd3gw", "tooz", "aetcd")
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} on {platform.machine()}",
        "python": platform.python_version(),
        "redis-server": redis_version,
        "packages": {name: found for name in packages if (found := _version(name))},
        "load before": round(os.getloadavg()[0], 1),
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


HEADER = """\
| what | ours | against | theirs | ratio | middle half | goal |
|---|--:|---|--:|--:|--:|--:|"""


def rows(table: Table) -> Iterator[str]:
    """One row of the big table per rival. The ratio is above 1 where we are ahead."""
    first, *others = table.samples
    what, ours = f"{table.title}, {table.unit}", _figure(table.median(first))
    if not others:
        yield f"| {what} | {ours} | | | | | |"
    for label in others:
        ratios = table.ratios(label)
        goal = table.goals.get(label)
        cells = (
            what,
            ours,
            label,
            _figure(table.median(label)),
            f"**{statistics.median(ratios):.2f}**",
            _middle_half(ratios),
            "" if goal is None else f"≥ {goal:g}",
        )
        yield f"| {' | '.join(cells)} |"


def notes(table: Table) -> Iterator[str]:
    """What else is worth knowing."""
    for note in table.notes:
        yield f"- {table.title}: {note}"


def _middle_half(values: list[float]) -> str:
    if len(values) < 3:
        return ""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{low:.2f}–{high:.2f}"


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def as_json(facts: dict[str, Any], scenarios: dict[str, list[Table]]) -> str:
    return json.dumps(
        {
            "machine": facts,
            "scenarios": {
                name: [_plain(table) for table in tables] for name, tables in scenarios.items()
            },
        },
        indent=1,
        ensure_ascii=False,
    )


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
        "notes": table.notes,
    }
