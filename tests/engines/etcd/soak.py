"""Eight processes hand a lock around while the servers under it are killed and frozen in turn.

    python -m tests.engines.etcd.soak --seconds 60

Each turn goes through a store that checks fences: first it raises the fence and reads a number, then,
a moment later, it writes the number plus one. Afterwards the journal of accepted writes must show no
lost update, no two turns that overlap, and fences that only grow.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import fencelock
from tests.servers_etcd import EtcdCluster, EtcdServer
from tests.spawning import Spawned
from tests.waiting import eventually

NAME = "soak"
WORKERS = 8
TTL = 5.0
WORK_SECONDS = 0.002


class Store:
    """A guarded number, and a journal of what was done to it."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "store.db", timeout=30, isolation_level=None)
        self._db.execute("PRAGMA synchronous=OFF")
        for table in (
            "guard (fence INT, holder TEXT, value INT)",
            "turns (fence INT, began REAL, ended REAL, found INT, wrote INT)",
            "troubles (at REAL, what TEXT)",
        ):
            self._db.execute(f"CREATE TABLE IF NOT EXISTS {table}")

    def close(self) -> None:
        self._db.close()

    def prepare(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("INSERT INTO guard VALUES (0, '', 0)")

    def begin(self, lease: Any) -> int | None:
        """Refuse older fences from now on, and read. None: this fence is older itself."""
        found = self._db.execute(
            "UPDATE guard SET fence = :fence, holder = :holder"
            " WHERE fence < :fence OR (fence = :fence AND holder = :holder) RETURNING value",
            {"fence": lease.fence, "holder": lease.id},
        ).fetchone()
        return found and int(found[0])

    def end(self, lease: Any, began: float, found: int) -> bool:
        """Write. Returns False if a newer fence came in the meantime."""
        with self._transaction():
            written = self._db.execute(
                "UPDATE guard SET value = ? WHERE fence = ? AND holder = ?",
                (found + 1, lease.fence, lease.id),
            ).rowcount
            if written:
                row = (lease.fence, began, time.monotonic(), found, found + 1)
                self._db.execute("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", row)
        return bool(written)

    def note(self, what: str) -> None:
        self._db.execute("INSERT INTO troubles VALUES (?, ?)", (time.monotonic(), what))

    def value(self) -> int:
        return int(self._db.execute("SELECT value FROM guard").fetchone()[0])

    def turns(self) -> list[tuple[Any, ...]]:
        return self._db.execute("SELECT * FROM turns ORDER BY ended").fetchall()

    def troubles(self) -> list[tuple[float, str]]:
        return self._db.execute("SELECT * FROM troubles ORDER BY at").fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        with self._db:
            yield


# --- a worker


def work(url: str, folder: Path, ttl: float = TTL) -> None:
    store = Store(folder)
    with fencelock.Client(url, ttl=ttl) as client:
        while not (folder / "stop").exists():
            try:
                with client.lock(NAME) as lease:
                    began = time.monotonic()
                    found = store.begin(lease)
                    time.sleep(WORK_SECONDS)
                    if found is None or not store.end(lease, began, found):
                        store.note("turned away")
            except fencelock.FencelockError as error:
                store.note(type(error).__name__)


async def work_async(url: str, folder: Path, ttl: float = TTL) -> None:
    store = Store(folder)
    async with fencelock.AsyncClient(url, ttl=ttl) as client:
        while not (folder / "stop").exists():
            try:
                async with client.lock(NAME) as lease:
                    began = time.monotonic()
                    found = store.begin(lease)
                    await asyncio.sleep(WORK_SECONDS)
                    if found is None or not store.end(lease, began, found):
                        store.note("turned away")
            except fencelock.FencelockError as error:
                store.note(type(error).__name__)


# --- the director


class Report(NamedTuple):
    turns: int
    value: int
    lost_updates: int
    overlaps: int
    fences_grow: bool
    troubles: dict[str, int]
    stalls: dict[str, float]
    """The longest pause between two turns, by what was done to the cluster."""

    def check(self) -> None:
        assert self.turns > 0
        assert self.lost_updates == 0
        assert self.overlaps == 0
        assert self.value == self.turns
        assert self.fences_grow


def kill(cluster: EtcdCluster, member: EtcdServer) -> None:
    member.kill()
    time.sleep(2)
    member.start()


def freeze(cluster: EtcdCluster, member: EtcdServer) -> None:
    with cluster.frozen(member):
        time.sleep(3)


def leader(cluster: EtcdCluster) -> EtcdServer:
    found = eventually(cluster.leader, "a leader")
    assert found is not None
    return found


def follower(cluster: EtcdCluster) -> EtcdServer:
    return cluster.followers()[0]


Harm = tuple[str, Callable[[EtcdCluster, EtcdServer], None], Callable[[EtcdCluster], EtcdServer]]

HARMS: tuple[Harm, ...] = (
    ("kill -9 of the leader", kill, leader),
    ("freeze of the leader", freeze, leader),
    ("freeze of a follower", freeze, follower),
    ("kill -9 of a follower", kill, follower),
)


def soak(cluster: EtcdCluster, folder: Path, seconds: float, workers: int = WORKERS) -> Report:
    """Do harm to the servers for so many seconds, and report what happened."""
    store = Store(folder)
    store.prepare()
    periods: list[tuple[str, float, float]] = []
    with ExitStack() as running:
        for number in range(workers):
            face = ("sync", "async")[number % 2]
            words = ("--worker", face, cluster.url, str(folder))
            process = Spawned("tests.engines.etcd.soak", *words)
            running.callback(stop, process)
        eventually(lambda: store.value() >= workers, "the first turns")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for what, harm, whom in HARMS:
                if time.monotonic() >= end:
                    break
                began = time.monotonic()
                harm(cluster, whom(cluster))
                time.sleep(1)
                periods.append((what, began, time.monotonic()))
        turns = store.value()
        eventually(lambda: store.value() >= turns + workers, "turns after all harm")
        (folder / "stop").touch()
    with closing(store):
        return report_of(store, periods)


def stop(process: Spawned) -> None:
    """Wait for a worker, which has been told to end."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(30)
    process.kill()
    assert process.wait() == 0, "a worker did not end by itself"


def report_of(store: Store, periods: list[tuple[str, float, float]]) -> Report:
    """What happened. `periods`: what was done to the servers, from when to when."""
    turns = store.turns()
    fences = [turn[0] for turn in turns]
    pairs = list(pairwise(turns))
    stalls: dict[str, float] = {}
    for one, other in pairs:
        for what, began, ended in periods:
            if began <= other[2] and one[2] <= ended:
                stalls[what] = max(stalls.get(what, 0.0), round(other[2] - one[2], 2))
    troubles: dict[str, int] = {}
    for _, what in store.troubles():
        troubles[what] = troubles.get(what, 0) + 1
    return Report(
        turns=len(turns),
        value=store.value(),
        lost_updates=sum(other[3] != one[4] for one, other in pairs),
        overlaps=sum(other[1] < one[2] for one, other in pairs),
        fences_grow=fences == sorted(set(fences)),
        troubles=troubles,
        stalls=stalls,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--worker", nargs=3, metavar=("FACE", "URL", "FOLDER"), help="internal")
    arguments = parser.parse_args()
    if arguments.worker:
        face, url, folder = arguments.worker
        if face == "sync":
            work(url, Path(folder))
        else:
            asyncio.run(work_async(url, Path(folder)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with EtcdCluster(folder / "etcd") as cluster:
            report = soak(cluster, folder, arguments.seconds)
    print(json.dumps(report._asdict(), indent=2))
    report.check()


if __name__ == "__main__":
    main()
