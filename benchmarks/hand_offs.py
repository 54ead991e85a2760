"""Hand-offs: several contenders want one lock; how fast does it change hands, and at what price?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.adapters.contract import AnyTurns
from benchmarks.crew import Crew
from benchmarks.rounds import Details, Table, interleave
from benchmarks.series import Series
from benchmarks.turns import Pace
from tests import counting
from tests.servers import RedisServer

_OF_THE_COUNTER = {"info", "echo", "hello", "client"}


@dataclass(frozen=True)
class Contest:
    """Which contestants compete, on which engine, and how."""

    where: str
    url: str
    adapters: Sequence[type[AnyTurns]]
    size: int
    pace: Pace
    each: int = 1
    """How many contenders each process has."""

    def run(self, crew: Crew, adapter: type[AnyTurns]) -> Series:
        name = f"{self.size}-{self.pace.hold:g}"
        return crew.compete(adapter, self.url, name, self.size, self.pace, each=self.each)

    @property
    def title(self) -> str:
        who = "processes" if self.each == 1 else "waiters"
        return f"{self.where} hand-off, {self.size:,} {who}, {section(self.pace)}"


def section(pace: Pace) -> str:
    return f"{pace.hold * 1e3:g} ms sections" if pace.hold else "empty sections"


def measure(
    contest: Contest,
    crew: Crew,
    rounds: int,
    goals: Mapping[str, float] | None = None,
    *,
    chart: str = "",
    counted: RedisServer | None = None,
) -> Table:
    """Measure hand-offs per second, and the details of each contestant."""
    series: dict[str, list[Series]] = {adapter.label: [] for adapter in contest.adapters}

    def contestant(adapter: type[AnyTurns]) -> Callable[[], float]:
        def run() -> float:
            found = contest.run(crew, adapter)
            series[adapter.label].append(found)
            return found.per_second()

        return run

    notes: list[str] = []
    contestants = {adapter.label: contestant(adapter) for adapter in contest.adapters}
    samples = interleave(contestants, rounds, notes)
    details = {label: _detailed(series[label]) for label in samples}
    if counted:
        _count_requests(contest, crew, counted, details)
    notes += [
        f"{label}: {_first(errors)}"
        for label in samples
        if (errors := [error for one in series[label] for error in one.errors])
    ]
    return Table(
        contest.title,
        "per s",
        "higher",
        samples,
        goals or {},
        notes,
        details,
        chart,
        contest.size,
    )


def _first(errors: Sequence[str]) -> str:
    return f"{len(errors)} errors, the first: {errors[0]}"


def _detailed(series: Sequence[Series]) -> dict[str, float]:
    return {
        "wait p50, ms": statistics.median(one.wait_ms(50) for one in series),
        "wait p99, ms": statistics.median(one.wait_ms(99) for one in series),
        "Jain": statistics.median(one.fairness() for one in series),
        "unserved": max(one.unserved() for one in series),
        "overlaps": sum(one.overlaps() for one in series),
        "errors": sum(len(one.errors) for one in series),
    }


def _count_requests(contest: Contest, crew: Crew, server: RedisServer, details: Details) -> None:
    """Count requests and pushes per turn, in a separate run, because a monitored server is slower."""
    for adapter in contest.adapters:
        if adapter.label not in details:
            continue
        crew.connect(adapter, server.url, "counted", contest.size, each=contest.each)
        with counting.requests(server) as requests, counting.commands(server) as commands:
            series = crew.take_turns(contest.size, contest.pace, each=contest.each)
        turns = max(1, series.with_late_ones)  # late turns sent requests, too
        sent = sum(count for name, count in requests.items() if name not in _OF_THE_COUNTER)
        details[adapter.label] |= {
            "requests per turn": sent / turns,
            "pushes per turn": commands["publish"] / turns,
        }
