"""Notes: they outlive their name, the boot and a power cut, but not their time. And several names at once."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import READING, Owner, Place, Ticket
from fencelock.engines.sqlite import operations
from fencelock.engines.sqlite.statements import SQL
from fencelock.io.blocking import run
from tests.engines.sqlite.bare_file import NAME, OWNER, BareFile


def remember(bare: BareFile, id: str, text: str, *, name: str = NAME, keep: float = 60.0) -> Any:
    return bare.do(bare.operations.remember, Ticket(name, id, 30.0, OWNER), text, keep)


def test_a_note_outlives_its_name_and_the_boot(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
    bare.enter("holder")
    assert remember(bare, "holder", "done")
    bare.leave("holder")
    bare.do(bare.operations.sweep, operations.now_us())
    assert bare.rows() == 0
    bare.now = 10.0  # the clock starts anew
    bare.do(bare.operations.start_boot, "the next boot")
    assert bare.operations.recall(NAME) == "done"
    assert bare.do(bare.operations.names, "*") == []


def test_notes_whose_time_is_up_are_discarded(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, keep in (("a", 60.0), ("b", 60.0), ("c", 600.0)):
        bare.enter("t", name=name)
        assert remember(bare, "t", "done", name=name, keep=keep)
    later = time.time_ns() + 61 * 10**9
    monkeypatch.setattr("time.time_ns", lambda: later)
    assert [bare.operations.recall(name) for name in "abc"] == [None, None, "done"]
    bare.do(bare.operations.sweep, operations.now_us())
    assert bare.connection.execute("SELECT name FROM note").get == "c"
    plan = bare.connection.execute("EXPLAIN QUERY PLAN " + SQL["discard"], (0, 0)).fetchall()
    assert not any(str(line).startswith("SCAN") for *_, line in plan), plan


def test_a_ticket_that_expired_unnoticed_stores_no_note(bare: BareFile) -> None:
    bare.enter("dead", ttl=1.0)
    for reader in ("a", "b"):
        bare.enter(reader, READING)
    bare.now += 2
    assert not remember(bare, "dead", "mine")
    assert [wake.address for wake in bare.operations.wake_ups] == ["a:1", "b:1"]
    assert remember(bare, "b", "ours"), "a ticket that shares it"
    assert bare.operations.recall(NAME) == "ours"


def test_a_note_is_on_the_disk_before_anyone_relies_on_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with fencelock.Client(f"sqlite:///{tmp_path}/locks.db") as client:
        assert client.once(NAME, lambda: synced.copy()) == [], "a lock does not wait for the disk"
        assert synced == [os.stat(tmp_path / "locks.db-wal").st_ino]

        def fail(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("os.fsync", fail)
        with client.lock("y") as lease, pytest.raises(fencelock.EngineError) as caught:
            run(client._context.engine.remember(lease._claim.ticket, "done", keep=60, timeout=30))
        assert (caught.value.outcome, caught.value.name) == ("unknown", "y")


def test_several_names_cost_one_commit(tmp_path: Path) -> None:
    with fencelock.Client(f"sqlite:///{tmp_path}/locks.db") as client:
        client.lock("b").acquire().release()
        engine: Any = client._context.engine
        commits = count()
        engine._file._connection.set_commit_hook(lambda: next(commits) < 0)
        wanted = [Ticket(name, "several", 30.0, Owner("host", 1)) for name in "abc"]
        for _ in range(2):  # also if it is sent again
            standings = run(engine.enter_free(wanted, timeout=30))
            assert [one.place for one in standings] == [Place.ADMITTED] * 3
        assert next(commits) == 2
        other = [ticket._replace(id="other") for ticket in wanted]
        refused = run(engine.enter_free(other[1:], timeout=30))
        assert [one.place for one in refused] == [Place.REFUSED] * 2
