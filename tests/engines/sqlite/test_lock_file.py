"""The lock file in use: busy, full, removed, of another boot; and transactions that break off."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import fencelock
from fencelock.engines.sqlite import connect, operations
from fencelock.engines.sqlite.lock_file import LockFile
from fencelock.engines.sqlite.named_pipes import Pipes
from fencelock.engines.sqlite.statements import SQL
from fencelock.io import clock
from tests.engines.sqlite.elsewhere import in_namespace
from tests.waiting import eventually


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def client(path: Path) -> Iterator[fencelock.Client]:
    with fencelock.Client(f"sqlite:///{path}") as client:
        yield client


def error_of(act: Callable[[], Any]) -> fencelock.EngineError:
    with pytest.raises(fencelock.EngineError) as caught:
        act()
    return caught.value


def test_a_full_disk(tmp_path: Path) -> None:
    answer = in_namespace(
        """
        mount_tmpfs("512k")
        client = fencelock.Client(f"sqlite:///{folder}/locks.db")
        lease = client.lock("x").acquire()
        with open(f"{folder}/ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(512))
            except OSError:
                pass
        answer, names = [], []
        try:
            for number in range(10_000):  # what is allocated already is used up first
                names.append(client.lock(f"order:{number}").acquire().name)
        except fencelock.EngineError as error:
            answer += [error.outcome, str(error)]
        os.unlink(f"{folder}/ballast")
        answer.append(sorted(client.names()) == sorted([*names, "x"]))
        lease.release()
        answer.append(client.lock("x").acquire().fence > lease.fence)
        """,
        tmp_path,
    )
    assert answer == [
        "not applied",
        f"the disk that holds {tmp_path}/locks.db is full: make room, then try again",
        True,
        True,
    ]


@pytest.mark.parametrize("uncontended", [True, False])
def test_a_commit_that_breaks_off_may_have_been_applied(tmp_path: Path, uncontended: bool) -> None:
    answer = in_namespace(
        f"        uncontended = {uncontended}"
        """
        from fencelock.io.blocking import run
        client = fencelock.Client(f"sqlite:///{folder}/locks.db")
        lease = client.lock("x").acquire()
        if not uncontended:
            client.inspect("x")
        engine, ticket = client._context.engine, lease._claim.ticket
        size = os.stat(f"{folder}/locks.db-wal").st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        try:
            run(engine.leave(ticket, timeout=30))
        except fencelock.EngineError as error:
            answer = [error.outcome, str(error), error.name]
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        answer.append(run(engine.leave(ticket, timeout=30)))
        """,
        tmp_path,
    )
    assert answer[0] == "unknown"
    assert f"could not use {tmp_path}/locks.db: " in answer[1]
    assert answer[2:] == ["x", True]


def test_a_busy_file_is_reported_in_time(path: Path, client: fencelock.Client) -> None:
    lease = client.lock("x").acquire()
    hog = apsw.Connection(str(path))
    hog.execute("BEGIN IMMEDIATE")
    began = time.monotonic()
    error = error_of(lambda: client.lock("y").acquire(timeout=0.3))
    assert time.monotonic() - began >= 0.25
    assert (error.outcome, error.name) == ("not applied", "y")
    assert "is busy: other transactions held it all the time" in str(error)
    assert isinstance(error.__cause__, apsw.BusyError)
    hog.execute("ROLLBACK")
    hog.close()
    assert client.lock("y").acquire(timeout=5)
    lease.release()


def test_a_short_wait_for_the_file_does_not_sleep(path: Path) -> None:
    file = LockFile(str(path), Pipes(str(path)))
    file._deadline = clock.now() + 60

    def sleeps(tries: int) -> int:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        assert file._wait_for_file(tries)
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before

    # The least of several, because a thread of pytest's own may hold the GIL.
    assert min(sleeps(tries=0) for _ in range(10)) == 0
    assert min(sleeps(tries=100) for _ in range(10)) == 1
    file._deadline = clock.now()
    assert not file._wait_for_file(0)


def test_killed_in_the_middle_of_a_transaction(path: Path, client: fencelock.Client) -> None:
    lease = client.lock("x").acquire()
    program = f"""
import apsw, sys
connection = apsw.Connection({str(path)!r})
connection.execute("BEGIN IMMEDIATE")
connection.execute("DELETE FROM queue")
connection.cache_flush()  # the pages are in the log, the commit is not
print("deleted", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"deleted\n"
        assert "is busy" in str(error_of(lambda: client.lock("x").try_acquire()))
        child.kill()
    assert client.lock("x").try_acquire() is None
    assert client.inspect("x").holders[0].fence == lease.fence
    lease.release()


def test_a_file_that_was_removed_is_not_used_any_more(path: Path, client: fencelock.Client) -> None:
    old = client.lock("x").acquire()
    for file in path.parent.glob("locks.db*"):
        if file.is_file():
            file.unlink()
    with fencelock.Client(f"sqlite:///{path}") as newcomer:
        new = newcomer.lock("x").acquire()
        assert new.fence > old.fence
        # The client that has it open notices, and meets the newcomer again.
        eventually(lambda: client.inspect("x").fence == new.fence, "a look at the new file")
        assert client.lock("x").try_acquire() is None
        with pytest.raises(fencelock.LeaseLost):
            old.renew()
        new.release()


def test_asked_in_the_middle_of_a_transaction(client: fencelock.Client) -> None:
    """By a signal handler or a finalizer: refused at once, and the transaction goes on."""
    file = client._context.engine._file  # type: ignore[attr-defined]
    seen = []

    def act(operations: Any) -> str:
        seen.append(error_of(lambda: client.lock("x").try_acquire()))
        return "done"

    deadline = client._context.io.now() + 2
    assert file.transact("BEGIN IMMEDIATE", deadline, None, act) == "done"
    assert "signal handler" in str(seen[0])
    assert client.lock("x").try_acquire()


def test_an_interrupted_transaction_leaves_nothing_open(
    path: Path, client: fencelock.Client
) -> None:
    file = client._context.engine._file  # type: ignore[attr-defined]
    client.names()

    def act(operations: Any) -> None:
        operations._execute("INSERT INTO queue (name, fence) VALUES ('x', 0)")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        file.transact("BEGIN IMMEDIATE", client._context.io.now() + 2, None, act)
    assert not file._connection.in_transaction
    assert client.lock("x").try_acquire()


@pytest.mark.parametrize("statement", [SQL["take"], SQL["give_back"]])
def test_an_interruption_after_a_statement_leaves_nothing_behind(
    client: fencelock.Client, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(
        operations, "random", lambda: 1.0
    )  # no sweep, for which it would go another way
    client.names()
    file = client._context.engine._file  # type: ignore[attr-defined]
    execute = file._execute

    def interrupted(sql: str, *args: Any) -> Any:
        result = execute(sql, *args)
        if sql == statement:
            monkeypatch.undo()
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(file, "_execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        client.lock("x", ttl=600).acquire().release()
    got: list[fencelock.Lease] = []  # by another thread: the mutex is free too
    other = threading.Thread(target=lambda: got.append(client.lock("x").acquire(timeout=30)))
    other.start()
    other.join()
    assert not got[0].abandoned


def test_interrupted_behind_the_commit_it_still_wakes_the_next(
    client: fencelock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal that comes while SQLite commits is raised when that is done."""
    lease = client.lock("x").acquire()
    got: list[fencelock.Lease] = []
    waiter = threading.Thread(target=lambda: got.append(client.lock("x", ttl=600).acquire()))
    waiter.start()
    eventually(lambda: client.inspect("x").waiting, "the waiter")
    file = client._context.engine._file  # type: ignore[attr-defined]
    execute = file._execute

    def interrupted(sql: str, *args: Any) -> Any:
        result = execute(sql, *args)
        if sql == "COMMIT":
            monkeypatch.undo()
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(file, "_execute", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lease.release()
    waiter.join(30)
    assert got, "it was woken: its own renewal would come after minutes"


def test_another_boot_ends_every_ticket(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fencelock.Client(f"sqlite:///{path}") as before:
        held = before.lock("x", ttl=600).acquire()
        boot = path.parent / "boot_id"
        boot.write_text("another\n")
        monkeypatch.setattr(connect, "_BOOT_ID", boot)
        with fencelock.Client(f"sqlite:///{path}") as after:
            lease = after.lock("x").try_acquire()
            assert lease is not None
            assert lease.abandoned
            assert lease.fence > held.fence
            with pytest.raises(fencelock.LeaseLost):
                held.release()
