"""A short version of the soak: on each SQL database, with locks of different engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.guards.soak import soak


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "lock"), [("sqlite", "sqlite"), ("postgresql", "redis"), ("mysql", "etcd")]
)
def test_every_acknowledged_increment_is_there(
    request: pytest.FixtureRequest, tmp_path: Path, storage: str, lock: str
) -> None:
    def url(kind: str) -> str:
        return str(request.getfixturevalue(f"{kind}_url"))

    where = str(tmp_path / "numbers.db") if storage == "sqlite" else url(storage)
    lock_url = f"sqlite:///{tmp_path}/locks.db" if lock == "sqlite" else url(lock)
    outcome = soak(lock_url, storage, where, seconds=2, processes=8)
    assert outcome.errors == []
    assert outcome.final == outcome.acknowledged > 0
    assert outcome.refused > 0, "no stale write was tried, so this has proved nothing"
