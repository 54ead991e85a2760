"""The plan as text, as JSON and as a chart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from fencelock.cli.bench.expect import rough, short_duration
from fencelock.cli.plan.advice import expectations, instead, leases_per_process
from fencelock.cli.tables import print_table
from fencelock.planning.model import FULL, Load, Model, shortest_ttl

NO_END = "no end"
"""Shown for the wait in a queue that grows without end."""

TIMES = (1, 2, 4)
"""The columns of the table: the locks per second, as multiples of those that were asked for."""

_PARTS = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The points of the drawing, as parts of the locks per second at which something is overloaded."""

_WIDTH = 78
_LONGEST_BAR = 40


class Plan:
    """A model, at the number of locks per second that was asked for."""

    def __init__(self, model: Model, per_second: float, operation: float, engine: str) -> None:
        self.model = model
        self.operation = operation
        self.engine = engine
        self.loads = [model.at(per_second * times) for times in TIMES]

    @property
    def now(self) -> Load:
        return self.loads[0]

    def as_json(self) -> dict[str, Any]:
        """docs/cli.md documents these keys, so they stay. What has no end is null."""
        model, now = self.model, self.now
        ttl = shortest_ttl(self.operation, model.engine.pair_p99)
        found = {
            "names": model.names.count,
            "zipf": model.names.skew,
            "held": {"mean": model.held.mean, "p99": model.held.p99},
            "partitions": model.partitions,
            "engine": {"label": self.engine, **model.engine._asdict()},
            "loads": [
                {"times": times, **load._asdict()}
                for times, load in zip(TIMES, self.loads, strict=True)
            ],
            "limits": {"busiest_name": model.name_limit, "engine": model.engine_limit},
            "finer_names": model.finer(now.per_second),
            "ttl": ttl,
            "leases_per_process": leases_per_process(model, ttl),
            "expect": list(expectations(model, now, self.operation)),
            "instead": instead(model, now),
        }
        return {key: _plain(value) for key, value in found.items()}

    def show(self) -> None:
        """Print the plan: a table, a drawing, sentences."""
        model, engine, now = self.model, self.model.engine, self.now
        spread = f"Zipf {model.names.skew:g}" if model.names.skew else "all wanted alike"
        names = f"{model.names.count:,} name{'s' * (model.names.count > 1)}"
        capacity = engine.pairs_per_second
        click.echo(f"{_number(now.per_second)} locks per second on {names} ({spread})")
        click.echo(
            f"each held for {short_duration(model.held.mean)} (p99 {short_duration(model.held.p99)})"
        )
        click.echo(f"on {self.engine}")
        click.echo(
            f"a free lock: {short_duration(engine.pair)}; a hand-off: {short_duration(engine.hand_off)}"
            + ("" if math.isinf(capacity) else f"; at most {rough(capacity)} locks per second")
        )
        click.echo()
        print_table(("WHAT", "NOW", *(f"×{times}" for times in TIMES[1:])), self._rows())
        click.echo()
        click.secho("How long callers of the busiest name wait (p99)", bold=True)
        for line in self._drawing():
            click.echo(line)
        for title, lines in (
            ("What to expect", expectations(model, now, self.operation)),
            ("Is a lock the right tool?", instead(model, now)),
        ):
            click.echo()
            click.secho(title, bold=True)
            for line in lines:
                click.echo(click.wrap_text(f"- {line}", _WIDTH, "  ", "    "))

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, Callable[[Load], str]]] = [
            ("locks per second", lambda load: _number(load.per_second)),
            ("busiest name: callers per second", lambda load: _number(load.busiest_per_second)),
            ("busiest name: in use", lambda load: _percent(load.busy)),
            ("busiest name: mean wait", lambda load: _wait(load.mean_wait)),
            ("busiest name: p99 of the wait", lambda load: _wait(load.p99_wait)),
            ("all names: mean wait", lambda load: _wait(load.mean_wait_anywhere)),
            ("names whose queue has no end", lambda load: f"{load.names_without_end:,}"),
            ("held at a moment", lambda load: _number(load.held)),
            ("waiting at a moment", lambda load: _number(load.waiting)),
        ]
        if self.now.partition_busy is not None:
            count = self.model.partitions
            engine = f"busiest of {count} partitions" if count > 1 else "engine"
            rows += [
                (f"{engine}: in use", lambda load: _percent(load.partition_busy or 0.0)),
                (
                    f"partitions needed, {FULL:.0%} in use",
                    lambda load: (
                        "none is enough"
                        if load.partitions_needed is None
                        else f"{load.partitions_needed:,}"
                    ),
                ),
            ]
        return [(what, *map(show, self.loads)) for what, show in rows]

    def _up_to_the_limit(self) -> list[Load]:
        return [self.model.at(part * self.model.limit) for part in _PARTS]

    def _drawing(self) -> list[str]:
        loads = self._up_to_the_limit()
        longest = max(load.p99_wait for load in loads)
        return [
            f"{_number(load.per_second):>10} per second  "
            f"{'█' * max(1, round(_LONGEST_BAR * load.p99_wait / longest))} {_wait(load.p99_wait)}"
            for load in loads
        ]

    def chart(self) -> str:
        """The wait at the busiest name against the number of locks per second, as SVG."""
        from fencelock.cli.charts.draw import draw_curves

        loads = self._up_to_the_limit()
        curves = {
            "p99": {_round(load.per_second): load.p99_wait * 1e3 for load in loads},
            "mean": {_round(load.per_second): load.mean_wait * 1e3 for load in loads},
        }
        return draw_curves(
            "The wait at the busiest name", "locks per second", "ms", curves, best="lower"
        )


def _plain(value: Any) -> Any:
    """Numbers with four digits, and None for what has no end: JSON has no infinity."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
        case float():
            return float(f"{value:.4g}") if math.isfinite(value) else None
    return value


def _wait(seconds: float) -> str:
    return NO_END if math.isinf(seconds) else short_duration(seconds)


def _percent(part: float) -> str:
    return NO_END if math.isinf(part) else f"{part:.0%}"


def _number(value: float) -> str:
    if math.isinf(value):
        return NO_END
    return rough(value) if value < 100 else f"{_round(value):,.0f}"


def _round(value: float) -> float:
    """With three digits: a model is not more exact than that."""
    return float(f"{value:.3g}")
