"""SQLite: one machine, no server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from benchmarks.adapters.contract import Turns
from benchmarks.adapters.limits.flock import Flock
from benchmarks.adapters.limits.sqlite_row import BareRow
from benchmarks.adapters.ours import Fencelock, FencelockReused
from benchmarks.adapters.rivals.filelock import FileLock
from benchmarks.adapters.rivals.portalocker import Portalocker
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table, interleave
from benchmarks.setting import Setting, scenario

PAIR = (Fencelock, FencelockReused, FileLock, Portalocker, Tooz, BareRow, Flock)
HAND_OFF = (Fencelock, FileLock, Portalocker, Tooz, Flock)
IDLE = 8


@scenario("sqlite-pair")
def sqlite_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs, notes = setting.rounds(25, 7), setting.rounds(500, 200), list[str]()
    samples = measure_pairs(PAIR, setting.sqlite_url, notes, rounds=rounds, pairs=pairs)
    goals = {BareRow.label: 0.6}
    yield Table("SQLite pair, sync", "µs", "lower", samples, goals, notes, chart="sqlite-pair")


@scenario("sqlite-hand-off")
def sqlite_hand_off(setting: Setting) -> Iterator[Table]:
    with Crew(32) as crew:
        for pace, size in setting.contests(setting.seconds(1, 0.5)):
            contest = Contest("SQLite", setting.sqlite_url, HAND_OFF, size, pace)
            chart = "sqlite-hand-off" if pace.hold else ""
            yield measure(contest, crew, setting.rounds(5, 2), chart=chart)


@scenario("sqlite-idle")
def sqlite_idle(setting: Setting) -> Iterator[Table]:
    """What it costs to wait while the lock stays held."""
    seconds, notes = setting.seconds(5, 1), list[str]()

    def contestant(crew: Crew, adapter: type[Turns]) -> Callable[[], float]:
        def run() -> float:
            holder = adapter(setting.sqlite_url, "idle")
            holder.acquire()
            for place in range(IDLE):
                crew.begin(place, _wait_once, adapter, setting.sqlite_url)
            time.sleep(seconds)
            holder.release()
            used = sum(crew.answer(place) for place in range(IDLE))
            holder.close()
            return float(used) / seconds * 1e3

        return run

    with Crew(IDLE) as crew:
        contestants = {one.label: contestant(crew, one) for one in (Fencelock, FileLock)}
        samples = interleave(contestants, setting.rounds(3, 1), notes)
    title = f"SQLite, {IDLE} idle waiters together"
    yield Table(title, "ms of CPU per s", "lower", samples, notes=notes)


def _wait_once(adapter: type[Turns], url: str) -> float:
    """The CPU seconds that this process used while it waited for one turn."""
    turns = adapter(url, "idle")
    before = time.process_time()
    turns.acquire()
    used = time.process_time() - before
    turns.release()
    turns.close()
    return used
