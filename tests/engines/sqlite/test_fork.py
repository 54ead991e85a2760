"""Fork: SQLite has nothing open then, so that a child can use the file without harm to anyone."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.child import Child
from tests.engines.sqlite.elsewhere import in_fork

# Newer Pythons warn of forks in programs with threads. That it works all the same is the point.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def client(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url) as client:
        yield client


def hold_for_a_while(url: str, say: int, hear: int) -> None:
    """What the child of the next test does."""
    with fencelock.Client(url) as own:
        taken = own.lock("parent's").try_acquire() is None
        lease = own.lock("child's").acquire()
        os.write(say, f"{taken} {lease.fence}".encode())
        os.read(hear, 1)
        lease.release()


def test_a_child_with_a_client_of_its_own(url: str) -> None:
    """It must have locks of its own at the file, also when the parent has closed it."""
    parent = fencelock.Client(url)
    held = parent.lock("parent's").acquire()
    (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            hold_for_a_while(url, to_parent, from_parent)
        finally:
            os._exit(0)
    taken, fence = os.read(from_child, 100).split()
    assert taken == b"True", "the child finds the parent's lease"
    held.check()
    assert parent.lock("child's").try_acquire() is None
    parent.close()
    with Child("sync", url) as third:
        assert third.call("acquire", name="child's", timeout=0)["error"] == "LockTimeout"
        os.write(to_child, b"x")
        assert third.call("acquire", name="child's", timeout=10)["fence"] > int(fence)
    assert os.waitpid(pid, 0)[1] == 0
    for fd in (from_child, to_parent, from_parent, to_child):
        os.close(fd)


def test_forking_while_other_threads_work(url: str, client: fencelock.Client) -> None:
    stop = threading.Event()

    def work(name: str) -> None:
        while not stop.is_set():
            client.lock(name).acquire().release()

    def use() -> str:
        with fencelock.Client(url) as own:
            own.lock("x").acquire(timeout=10).release()
        return "used"

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        assert [in_fork(use) for _ in range(10)] == ["used"] * 10
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_forked_in_the_middle_of_a_transaction(url: str, client: fencelock.Client) -> None:
    """By a signal handler, say: the child is told that it can't use the file; the parent can."""
    file = client._context.engine._file  # type: ignore[attr-defined]

    def act(operations: Any) -> str:
        return in_fork(lambda: repr(fencelock.Client(url).names()))

    message = file.transact("BEGIN IMMEDIATE", client._context.io.now() + 10, None, act)
    assert "it was forked in the middle of a transaction" in message
    client.lock("x").acquire().release()
