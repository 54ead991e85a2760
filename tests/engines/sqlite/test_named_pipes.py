"""Wake-ups between processes: by push, without polling, and no pipes are left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import ALONE, READING, Departure, Owner, Place, Share, Standing, Ticket
from fencelock.engines.sqlite.admission import WakeUp
from fencelock.engines.sqlite.lock_file import ONE_STATEMENT, LockFile
from fencelock.engines.sqlite.named_pipes import Pipes
from fencelock.io.blocking import run
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.waiting import eventually, soon, within


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "locks.db-wake"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def client(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url) as client:
        yield client


@contextmanager
def counted(client: Any) -> Iterator[Counter[str]]:
    """Count a client's transactions by operation, without the single statements of uncontended tickets."""
    seen: Counter[str] = Counter()
    file: LockFile = client._context.engine._file
    transact = file.transact

    def counting(begin: str, deadline: float, name: str | None, act: Any, *args: Any) -> Any:
        seen[act.__name__] += begin != ONE_STATEMENT
        return transact(begin, deadline, name, act, *args)

    file.transact = counting  # type: ignore[method-assign]
    yield seen
    file.transact = transact  # type: ignore[method-assign]


def queued(client: fencelock.Client, count: int, name: str = "x") -> None:
    eventually(lambda: client.inspect(name).waiting == count, f"{count} waiting tickets", 30)


def pipes_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def in_thread(act: Any) -> tuple[threading.Thread, list[Any]]:
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.append(act()))
    thread.start()
    return thread, got


def test_a_wait_is_one_look_and_one_push(client: fencelock.Client, url: str) -> None:
    """Between two processes: the push carries the grant, so the waiter looks at nothing else."""
    with Child("sync", url) as child, fencelock.Client(url) as waiting:
        held = child.call("acquire", name="x")
        with counted(waiting) as seen:
            thread, got = in_thread(lambda: waiting.lock("x", ttl=600).acquire())
            queued(client, 1)
            child.call("release")
            thread.join(30)
        assert got[0].fence > held["fence"]
        assert +seen == {"enter": 1}
        got[0].release()


async def test_a_wait_in_a_task_is_one_look_and_one_push(
    client: fencelock.Client, url: str
) -> None:
    async with fencelock.AsyncClient(url) as waiting:
        lease = client.lock("x").acquire()
        with counted(waiting) as seen:
            waiter = asyncio.create_task(waiting.lock("x", ttl=600).acquire())
            await soon(lambda: client.inspect("x").waiting == 1, "the waiter")
            lease.release()
            got = await within(waiter)
        assert got.fence > lease.fence
        assert +seen == {"enter": 1}
        await got.release()


def test_a_long_wait_costs_its_renewals_only(client: fencelock.Client, url: str) -> None:
    with fencelock.Client(url) as waiting:
        lease = client.lock("x").acquire()
        with counted(waiting) as seen:
            began = time.monotonic()
            thread, got = in_thread(lambda: waiting.lock("x", ttl=3).acquire())
            eventually(lambda: seen["renew"] >= 3, "some renewals")
            lease.release()
            thread.join(30)
            waited = time.monotonic() - began
            looks, renewals = seen["enter"], seen["renew"]
        assert looks == 1
        assert renewals <= waited + 2, "at a third of its ttl"
        got[0].release()


def test_the_abandoned_flag_travels_with_the_push(client: fencelock.Client) -> None:
    _ = client.lock("x").acquire()
    thread, got = in_thread(lambda: client.lock("x", ttl=600).acquire())
    queued(client, 1)
    assert client.break_lock("x")
    thread.join(30)
    assert got[0].abandoned


def test_every_waiter_that_a_release_admits_is_woken(client: fencelock.Client, url: str) -> None:
    """By one transaction of the ticket that leaves. The waiters need not look at the file."""
    engine, waiting = client._context.engine, fencelock.Client(url)
    writer = ticket("writer")
    run(engine.enter(writer, if_free=False, timeout=30))
    readers = [ticket(f"reader {number}", READING) for number in range(3)]
    fences = [
        run(waiting._context.engine.enter(one, if_free=False, timeout=30)).fence for one in readers
    ]
    with counted(client) as left, counted(waiting) as seen:
        run(engine.leave(writer, timeout=5, departure=Departure.LOST))
        until = client._context.io.now() + 600
        news = [run(waiting._context.engine.park(one, until)) for one in readers]
    assert news == [Standing(Place.ADMITTED, fence, abandoned=True) for fence in fences]
    assert (left, seen) == ({"leave": 1}, {})
    for one in readers:
        waiting._context.engine.unpark(one)
    waiting.close()


def ticket(label: str, share: Share = ALONE) -> Ticket:
    return Ticket("x", new_id(), 600.0, Owner("host", 1, label), share)


async def test_a_ticket_may_be_interrupted_from_another_thread_before_it_is_parked(
    url: str,
) -> None:
    async with fencelock.AsyncClient(url) as client:
        engine, late = client._context.engine, ticket("late")
        await engine.enter(ticket("holder"), if_free=False, timeout=30)
        await engine.enter(late, if_free=False, timeout=30)
        await asyncio.to_thread(engine.interrupt, late)
        assert await asyncio.wait_for(engine.park(late, client._context.io.now() + 600), 30) is None
        engine.unpark(late)
        engine.interrupt(late)  # and it does not matter if it was late


def test_a_pipe_that_is_closed_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "locks.db").touch()
    pipes = Pipes(str(tmp_path / "locks.db"))
    pipe = pipes.make()
    pipes.remove(pipe)
    with (tmp_path / "another file").open("w+") as another:
        assert another.fileno() == pipe.fd, "descriptors are used again"
        pipe.look_again(1)
        assert another.read() == ""


def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 200) / ("b" * 200) / "locks.db"
    with fencelock.Client(f"sqlite:///{deep}") as client:
        lease = client.lock("x").acquire()
        thread, got = in_thread(lambda: client.lock("x", ttl=600).acquire())
        queued(client, 1)
        lease.release()
        thread.join(30)
        assert got, "it was pushed: its own renewal would come after minutes"


async def test_hundreds_of_tasks_share_one_pipe(folder: Path, url: str) -> None:
    async with fencelock.AsyncClient(url) as client, fencelock.AsyncClient(url) as other:
        names = [f"n{number}" for number in range(300)]
        leases = [await other.lock(name).acquire() for name in names]
        waiters = [asyncio.create_task(client.lock(name, ttl=600).acquire()) for name in names]

        async def all_wait() -> bool:
            return len(client._context.engine._listener._waiting) == 300  # type: ignore[attr-defined]

        await soon(all_wait, "300 waiters")
        await other.inspect("n0")
        assert len(pipes_in(folder)) == 1
        for lease in leases:
            await lease.release()
        granted = await asyncio.wait_for(asyncio.gather(*waiters), 60)
        assert [lease.name for lease in granted] == names
        assert client._context.engine._listener._waiting == {}  # type: ignore[attr-defined]
        for lease in granted:
            await lease.release()
    assert pipes_in(folder) == []


def test_closing_removes_the_pipes(folder: Path, client: fencelock.Client, url: str) -> None:
    lease = client.lock("x").acquire()
    with fencelock.Client(url) as waiting:
        threads = [in_thread(lambda: waiting.lock("x").acquire().release()) for _ in range(5)]
        queued(client, 5)
        assert len(pipes_in(folder)) == 5
        lease.release()
        for thread, _ in threads:
            thread.join(30)
        assert len(pipes_in(folder)) == 5, "kept for the next threads that wait"
    assert pipes_in(folder) == []


def test_ending_removes_the_pipes_and_a_forked_child_does_not(folder: Path, url: str) -> None:
    program = """
import os, sys, threading, warnings
import fencelock
warnings.simplefilter("ignore")  # newer Pythons warn of every fork
client = fencelock.Client(sys.argv[1])
lease = client.lock("x").acquire()
def wait():
    try:
        client.lock("x").acquire(timeout=0.01)
    except fencelock.LockTimeout:
        pass
thread = threading.Thread(target=wait)
thread.start()
thread.join()
before = os.listdir(sys.argv[2])
pid = os.fork()
if pid == 0:
    sys.exit()
os.waitpid(pid, 0)
print(len(before), os.listdir(sys.argv[2]) == before)
"""
    run = subprocess.run(
        [sys.executable, "-c", program, url, folder], capture_output=True, text=True, check=True
    )
    assert run.stdout == "1 True\n"
    assert pipes_in(folder) == []


def test_killed_waiters_leave_nothing(folder: Path, client: fencelock.Client, url: str) -> None:
    lease = client.lock("x").acquire()
    with ExitStack() as running:
        children = [running.enter_context(Child("sync", url)) for _ in range(4)]
        for child in children:
            child.send("acquire", name="x", ttl=1)
        queued(client, 4)
        assert len(pipes_in(folder)) == 4
        for child in children:
            child.kill()
    eventually(lambda: client.inspect("x").waiting == 0, "their tickets to expire")
    lease.release()
    client.lock("x").acquire(timeout=5).release()
    assert pipes_in(folder) == [], "the request that found a dead ticket removed its pipe"
    assert client.inspect("x").holders == ()


def test_pipes_without_a_ticket_are_swept(folder: Path, client: fencelock.Client, url: str) -> None:
    lease = client.lock("x").acquire()
    with Child("sync", url) as child:
        assert child.call("acquire", name="x", timeout=0.01)["error"] == "LockTimeout"
        child.kill()  # with a pipe that it kept for the next time
    (dead,) = folder.iterdir()
    fresh = folder / "0123456789abcdef"
    os.mkfifo(fresh)  # somebody is just about to open it
    stranger = folder / "README"
    stranger.touch()
    for old in (dead, stranger):
        os.utime(old, (0, 0))
    with fencelock.Client(url) as other:
        thread, got = in_thread(lambda: other.lock("x").acquire())
        queued(client, 1)
        lease.release()
        thread.join(30)
        got[0].release()
    names = {file.name for file in folder.iterdir()}
    assert dead.name not in names
    assert {fresh.name, stranger.name} <= names


def test_a_cleaned_folder_is_filled_again(folder: Path, client: fencelock.Client) -> None:
    """Something may clean up old files in /tmp, pipes among them."""
    for _ in range(2):
        lease = client.lock("x").acquire()
        thread, got = in_thread(lambda: client.lock("x", ttl=600).acquire())
        queued(client, 1)
        lease.release()
        thread.join(30)
        got[0].release()
        clean(folder)


async def test_a_cleaned_folder_is_filled_again_for_tasks(folder: Path, url: str) -> None:
    async with fencelock.AsyncClient(url) as client:
        for _ in range(2):
            lease = await client.lock("x").acquire()
            waiter = asyncio.create_task(client.lock("x", ttl=600).acquire())
            await soon(lambda: one_waits(client), "the waiter")
            await lease.release()
            await (await within(waiter)).release()
            clean(folder)


async def one_waits(client: fencelock.AsyncClient) -> bool:
    return (await client.inspect("x")).waiting == 1


def clean(folder: Path) -> None:
    for pipe in folder.iterdir():
        pipe.unlink()
    folder.rmdir()


def test_nothing_but_pipes_is_ever_written_to(tmp_path: Path) -> None:
    """Addresses come from a file that others can write."""
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    pipes = Pipes(str(tmp_path / "locks.db"))
    folder = tmp_path / "locks.db-wake"
    folder.mkdir()
    (folder / "link").symlink_to(precious)
    (folder / "plain").write_text("untouched")
    addresses = [
        "../precious:1",
        "link:1",
        "plain:1",
        "missing:1",
        "",
        ":",
        "plain:x",
        f"{precious}:1",
    ]
    pipes.send([WakeUp(address, 7, True) for address in addresses])
    assert precious.read_text() == (folder / "plain").read_text() == "untouched"
