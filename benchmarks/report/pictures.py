"""The charts of a report. A table names the chart that shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.rounds import Table
from fencelock.cli.charts.draw import draw_bars, draw_curves


class Picture(NamedTuple):
    """The texts around a chart."""

    title: str
    axis: str
    below: str = ""
    """The label of the horizontal axis, if the chart has curves."""


PICTURES = {
    "redis-pair": Picture("Redis: acquire + release, no contention", "µs per pair"),
    "redis-pair-asyncio": Picture("Redis, asyncio: acquire + release", "µs per pair"),
    "redis-hand-off": Picture(
        "Redis: hand-offs, empty sections", "hand-offs per second", "processes"
    ),
    "redis-hand-off-1ms": Picture(
        "Redis: hand-offs, 1 ms sections", "hand-offs per second", "processes"
    ),
    "fan-out": Picture("Redis: 1,000 asyncio tasks, each a name of its own", "pairs per second"),
    "leases": Picture(
        "Redis: leases held and renewed by one process", "% of a core", "leases, ttl 30 s"
    ),
    "growth-waiters": Picture(
        "Redis: the cost of a hand-off as more wait", "µs per hand-off", "waiters"
    ),
    "growth-names-redis": Picture(
        "Redis: the cost of a pair as more names are held", "µs per pair", "names held"
    ),
    "growth-names-sqlite": Picture(
        "SQLite: the cost of a pair as more names are held", "µs per pair", "names held"
    ),
    "redlock-stopped": Picture(
        "Redlock: acquire + release, five nodes", "µs per pair", "nodes stopped"
    ),
    "etcd-hand-off": Picture(
        "etcd: hand-offs, empty sections", "hand-offs per second", "processes"
    ),
    "zookeeper-hand-off": Picture(
        "ZooKeeper: hand-offs, empty sections", "hand-offs per second", "processes"
    ),
    "postgresql-hand-off": Picture(
        "PostgreSQL: hand-offs, empty sections", "hand-offs per second", "processes"
    ),
    "writers": Picture(
        "PostgreSQL: updates of one row, no work in between", "updates per second", "writers"
    ),
    "mysql-hand-off": Picture(
        "MariaDB: hand-offs, empty sections", "hand-offs per second", "processes"
    ),
    "sqlite-pair": Picture("SQLite: acquire + release, no contention", "µs per pair"),
    "sqlite-hand-off": Picture(
        "SQLite: hand-offs, 1 ms sections", "hand-offs per second", "processes"
    ),
}


def draw_all(tables: Sequence[Table], *, theme: str = "") -> Iterator[tuple[str, str]]:
    """The name and the picture of each chart that has measurements."""
    for name, picture in PICTURES.items():
        shown = [table for table in tables if table.chart == name]
        if shown:
            yield name, _draw(picture, shown, theme)


def _draw(picture: Picture, shown: Sequence[Table], theme: str) -> str:
    best, title = shown[0].better, picture.title
    if len(shown) == 1:  # one point is not a curve
        (table,) = shown
        if picture.below:
            title += f"; {picture.below}: {table.at:,g}"
        values = {label: table.median(label) for label in table.samples}
        return draw_bars(title, picture.axis, values, best=best, theme=theme)
    curves: dict[str, dict[float, float]] = {}
    for table in shown:
        assert table.at is not None
        for label in table.samples:
            curves.setdefault(label, {})[table.at] = table.median(label)
    return draw_curves(title, picture.below, picture.axis, curves, best=best, theme=theme)
