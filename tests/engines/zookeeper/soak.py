"""Eight processes hand a lock around while nodes are killed and frozen, leader and follower in turn.

    $ python -m tests.engines.zookeeper.soak --seconds 60

No update may be lost and fences only grow, or it fails; how long everyone stood still is reported.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import cycle, pairwise
from pathlib import Path
from typing import NamedTuple

from tests.engines.zookeeper.soak_worker import SCHEMA
from tests.servers_zookeeper import Ensemble, ZooKeeperServer
from tests.spawning import Spawned
from tests.waiting import eventually

PROCESSES = 8
NAME = "soak"


class Fault(NamedTuple):
    what: str
    begun: float
    ended: float


class Result(NamedTuple):
    """The result of a soak."""

    writes: int
    value: int
    fences_grow: bool
    values_follow: bool
    workers: int
    """How many of the processes had a turn."""
    failures: dict[str, int]
    stalls: dict[str, float]
    """The longest time without a write after each kind of fault, in seconds."""

    def check(self) -> None:
        assert self.value == self.writes, f"{self.writes - self.value} updates were lost"
        assert self.values_follow, "two wrote at the same time"
        assert self.fences_grow, "a fence did not grow"

    def __str__(self) -> str:
        stalls = ", ".join(f"{what} {stall:.2f} s" for what, stall in self.stalls.items())
        return (
            f"{self.writes} accepted writes by {self.workers} processes, {self.value} counted; "
            f"fences grow: {self.fences_grow}; failed turns: {self.failures}; "
            f"longest stalls: {stalls}"
        )


def soak(ensemble: Ensemble, folder: Path, seconds: float, processes: int = PROCESSES) -> Result:
    """Break the ensemble again and again for so long, and look at what the storage has seen."""
    path = folder / "counter.db"
    with closing(sqlite3.connect(path)) as file:
        file.executescript(SCHEMA + "INSERT INTO counter VALUES (0, 0);")
        file.execute("PRAGMA journal_mode = WAL")
    url = f"{ensemble.url}?session=8"
    with _crowd(url, folder, processes), closing(sqlite3.connect(path)) as file:
        eventually(lambda: _writes(file) > 50, "everyone to begin")
        faults = list(_faults(ensemble, time.monotonic() + seconds, lambda: _writes(file)))
    with closing(sqlite3.connect(path)) as file:
        return _result(file, faults)


def _faults(ensemble: Ensemble, end: float, writes: Callable[[], int]) -> Iterator[Fault]:
    kinds = cycle(
        [
            ("killed leader", ensemble.leader, _killed),
            ("frozen follower", ensemble.follower, _frozen),
            ("frozen leader", ensemble.leader, _frozen),
            ("killed follower", ensemble.follower, _killed),
        ]
    )
    while time.monotonic() < end:
        what, choose, broken = next(kinds)
        node = choose()
        begun = time.monotonic()
        with broken(node):
            before = writes()
            eventually(lambda: writes() > before + 20, f"turns without the {what}")  # noqa: B023
        ensemble.wait()
        before = writes()
        eventually(lambda: writes() > before + 20, "turns with all nodes")  # noqa: B023
        yield Fault(what, begun, time.monotonic())


@contextmanager
def _killed(node: ZooKeeperServer) -> Iterator[None]:
    node.kill()
    yield
    node.start()


@contextmanager
def _frozen(node: ZooKeeperServer) -> Iterator[None]:
    node.freeze()
    yield
    node.thaw()


@contextmanager
def _crowd(url: str, folder: Path, processes: int) -> Iterator[None]:
    module = "tests.engines.zookeeper.soak_worker"
    crowd = [Spawned(module, url, NAME, str(folder), str(number)) for number in range(processes)]
    try:
        yield
        (folder / "over").touch()
        assert [process.wait(timeout=60) for process in crowd] == [0] * processes
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def _writes(file: sqlite3.Connection) -> int:
    return int(file.execute("SELECT count(*) FROM journal").fetchone()[0])


def _result(file: sqlite3.Connection, faults: list[Fault]) -> Result:
    journal = file.execute(
        "SELECT fence, value, pid, moment FROM journal ORDER BY rowid"
    ).fetchall()
    fences = [row[0] for row in journal]
    moments = [row[3] for row in journal]
    gaps = list(pairwise(moments))
    stalls: dict[str, float] = {}
    for fault in faults:
        during = [b - a for a, b in gaps if b >= fault.begun and a <= fault.ended]
        stalls[fault.what] = max([stalls.get(fault.what, 0.0), *during])
    return Result(
        writes=len(journal),
        value=file.execute("SELECT value FROM counter").fetchone()[0],
        fences_grow=all(a < b for a, b in pairwise(fences)),
        values_follow=[row[1] for row in journal] == list(range(1, len(journal) + 1)),
        workers=len({row[2] for row in journal}),
        failures=dict(Counter(kind for (kind,) in file.execute("SELECT kind FROM failures"))),
        stalls=stalls,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with Ensemble(path / "ensemble", syncLimit=8) as ensemble:
            result = soak(ensemble, path, seconds)
    print(result)
    result.check()


if __name__ == "__main__":
    main()
