"""Real processes share, transact, and run things once; the tests sort and check their journals."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

import pytest

import fencelock
from fencelock.guards import SqlGuard
from tests.spawning import Spawned
from tests.waiting import eventually


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/locks.db"
    return str(request.getfixturevalue("redis_url"))


class Company:
    """Some processes that do the same. They all end with the block, whatever happens in it."""

    def __init__(self, count: int, deed: str, url: str, name: str, folder: Path) -> None:
        words = ("tests.company", deed, url, name, str(folder))
        self.processes = [Spawned(*words) for _ in range(count)]
        self._folder = folder

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    @property
    def at_work(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def journal(self) -> list[list[str]]:
        """What they did, in order of time: the process, then the words of its line."""
        path = self._folder / "journal"
        lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return [words for _, *words in sorted(lines, key=lambda words: int(words[0]))]

    def beginners(self) -> list[int]:
        return [int(pid) for pid, what, _ in self.journal() if what == "begins"]

    def wait(self) -> list[int]:
        return [process.wait(timeout=120) for process in self.processes]


def overlaps(journal: list[list[str]]) -> list[dict[str, int]]:
    """How many held at each moment, by kind."""
    inside: dict[str, int] = {}
    seen = []
    for _, what, kind in journal:
        inside[kind] = inside.get(kind, 0) + (1 if what == "in" else -1)
        seen.append(dict(inside))
    return seen


@contextmanager
def gathered(
    processes: int, callers: int, deed: str, url: str, name: str, folder: Path
) -> Iterator[Company]:
    """A company that begins to work when all its callers are ready."""
    with (
        fencelock.Client(url) as client,
        client.lock(name) as lease,
        Company(processes, deed, url, name, folder) as company,
    ):
        eventually(lambda: client.inspect(name).waiting == callers, "all to join", 120)
        lease.release()
        yield company


def test_a_semaphore_of_three_and_eight_processes(url: str, tmp_path: Path) -> None:
    with gathered(8, 8, "semaphore", url, uuid4().hex, tmp_path) as company:
        assert company.wait() == [0] * 8
    counts = [moment["permit"] for moment in overlaps(company.journal())]
    assert max(counts) == 3, "never four, and all permits are used"
    assert len(counts) == 8 * 6 * 2


def test_readers_overlap_and_writers_do_not(url: str, tmp_path: Path) -> None:
    with gathered(4, 4, "readers", url, uuid4().hex, tmp_path) as company:
        assert company.wait() == [0] * 4
    seen = overlaps(company.journal())
    assert max(moment.get("read", 0) for moment in seen) > 1, "readers share"
    assert max(moment.get("write", 0) for moment in seen) == 1
    assert not any(moment.get("write") and moment.get("read") for moment in seen)
    assert len(seen) == 4 * 7 * 2


@pytest.mark.parametrize(
    ("url", "policy"),
    [
        ("redis", "wait-die"),
        ("redis", "wound-wait"),
        ("redis", "detect"),
        ("sqlite", "wait-die"),
        ("sqlite", "timeout"),
    ],
    indirect=["url"],
)
def test_two_names_in_two_orders(url: str, policy: str, tmp_path: Path) -> None:
    name = f"{uuid4().hex}:{policy}"
    with Company(3, "transact", url, name, tmp_path) as company:
        assert company.wait() == [0] * 3
    seen = overlaps(company.journal())
    assert max(moment["both"] for moment in seen) == 1
    assert len(seen) == 3 * 4 * 2


def test_once_with_fifty_callers_some_of_whom_are_killed(url: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "storage.db")) as storage:
        storage.execute("PRAGMA journal_mode = WAL")
        storage.execute("CREATE TABLE charges (fence INTEGER)")
        SqlGuard().create(storage)
        storage.commit()
        with gathered(5, 50, "once", url, uuid4().hex, tmp_path) as company:
            for count in range(3):
                eventually(
                    lambda: len(company.beginners()) > count or not company.at_work,  # noqa: B023 - at once
                    "one more to begin, or all to be done",
                    120,
                )
                for process in company.processes:
                    if process.pid in company.beginners()[:3]:
                        process.kill()
            company.wait()
        charges = storage.execute("SELECT fence FROM charges").fetchall()
    assert len(charges) == 1, "the side effect is there exactly once"
    results = {text for _, what, text in company.journal() if what == "result"}
    assert results == {str(charges[0][0])}, "and everybody has its result"
