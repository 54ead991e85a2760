"""Short tortures of real engines: no promise may be called broken, and nothing may be left."""

from __future__ import annotations

from pathlib import Path

import pytest

import fencelock
from fencelock.torture.real.own import ENGINES, own_engine
from tests.effort import effort, only_in_soaks
from tests.torture.real.tortured import Tortured, tortured


def check(run: Tortured) -> None:
    assert "broken" not in {each.verdict for each in run.judgements}, run.verdicts()
    history = run.outcome.history
    assert history.grants
    assert not history.leftovers
    assert all(life.how in ("ended", "killed") for _, life in history.lives)


@pytest.mark.parametrize("primitive", ["semaphore", "rwlock", "election"])
def test_other_primitives(redis_url: str, tmp_path: Path, primitive: str) -> None:
    faults = ["stop", "kill", "replies-lost"]
    run = tortured(
        redis_url, tmp_path, primitive=primitive, faults=faults, seconds=effort(2, 30), processes=3
    )
    check(run)
    with fencelock.Client(redis_url) as client:
        assert client.names(f"{run.outcome.history.plan.prefix}*") == []


@only_in_soaks
@pytest.mark.parametrize("engine", ENGINES)
def test_all_faults(engine: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # a server may run as another user
    with own_engine(engine, tmp_path / "own") as own:
        check(tortured(own.url, tmp_path / "run", own=own, seconds=60, ttl=2.0))


def test_a_number_without_a_guard_shows_what_would_be_lost(tmp_path: Path) -> None:
    run = tortured(
        f"sqlite:///{tmp_path}/locks.db", tmp_path / "run", faults=["late-write"], seconds=4
    )
    check(run)
    history = run.outcome.history
    late = [write for write in history.writes if write.late]
    assert late
    # A write that came too late was refused behind the guard. Without one, it has undone another.
    refused = [write for write in late if write.outcome == "refused"]
    assert history.bare_lost() >= len(refused) > 0 or not refused
