"""The storage of a torture run, on each database that it may be in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock import FencelockError, StaleFence, Unsupported
from fencelock.guards.lease_like import RemoteLease
from fencelock.torture.real.register import Register, register_at

NAMES = ["a", "b" * 500]


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def register(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Register]:
    if request.param == "sqlite":
        where = f"sqlite:///{tmp_path}/numbers.db"
    else:
        where = request.getfixturevalue(f"{request.param}_url")
    made = register_at(where, "test")
    made.prepare(NAMES)
    yield made
    made.remove()
    made.close()


def stamp(name: str, fence: int, holder: str = "h") -> RemoteLease:
    return RemoteLease(name, fence, holder)


def test_it_keeps_the_numbers_and_each_accepted_write(register: Register) -> None:
    for fence in (3, 7):
        register.write(stamp("a", fence), register.read("a") + 1, "w1.1")
    register.write(stamp(NAMES[1], 1), 1, "w2.1")
    with pytest.raises(StaleFence) as refused:
        register.write(stamp("a", 5), 3, "w3.1")
    assert refused.value.newest == 7
    register.write_bare("a", register.read_bare("a") + 1)
    final = register.final()
    assert (final.guarded, final.bare) == ({"a": 2, NAMES[1]: 1}, {"a": 1, NAMES[1]: 0})
    assert [each[:5] for each in final.writes] == [
        ("a", 3, "h", 1, 0),
        ("a", 7, "h", 2, 1),
        (NAMES[1], 1, "h", 1, 0),
    ]
    assert [each.process for each in final.writes] == ["w1.1", "w1.1", "w2.1"]


def test_threads_have_connections_of_their_own(register: Register) -> None:
    def write() -> None:
        register.write(stamp("a", 1), 1, "w1.1")
        register.close()

    with register.transaction():
        if "sqlite" not in register.where:  # there, one transaction keeps all others out
            thread = threading.Thread(target=write)
            thread.start()
            thread.join()
    assert register.final().guarded["a"] == (0 if "sqlite" in register.where else 1)


def test_storage_that_can_not_be_used(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="sqlite, postgresql, mysql"):
        register_at("redis://localhost", "x")
    with pytest.raises(
        FencelockError, match=r"can't use the storage mysql://u:\*\*\*@127.0.0.1:1/d"
    ):
        register_at("mysql://u:secret@127.0.0.1:1/d", "x")
    with pytest.raises(FencelockError, match="can't use the storage"):
        register_at(f"sqlite:///{tmp_path}/no/folder.db", "x")
