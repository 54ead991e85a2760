"""What is held when a program ends is marked as lost, and then released."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.program import Program, output_of
from tests.servers import RedisFactory

TTL = 3600
"""So long that a lock that nobody releases is found held."""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def other(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url) as client:
        yield client


HOLD = """
    import sys, fencelock
    client = fencelock.Client(sys.argv[1])
    lease = client.lock("x", ttl=3600).acquire()
"""


def assert_released(client: fencelock.Client, name: str = "x") -> None:
    lease = client.lock(name).try_acquire()
    assert lease is not None, client.inspect(name)
    assert not lease.abandoned, "it was released in order"
    lease.release()


@pytest.mark.parametrize(
    ("end", "status"), [("", 0), ("sys.exit(3)", 3), ("raise ValueError('unhandled')", 1)]
)
def test_a_program_that_ends_releases_what_it_holds(
    end: str, status: int, url: str, other: fencelock.Client
) -> None:
    with Program.of(url, HOLD, end) as program:
        assert program.end() == status
        assert ("unhandled" in program.output) == (status == 1)
        assert "never released" not in program.output
    assert_released(other)


def test_on_a_server_too(redis_server: RedisFactory) -> None:
    redis_url = redis_server().url
    output_of(redis_url, HOLD, "leases = client.lock_all(['y', 'z'], ttl=3600).acquire()")
    with fencelock.Client(redis_url) as other:
        for name in "xyz":
            assert_released(other, name)


def test_a_lease_outlives_its_client(url: str, other: fencelock.Client) -> None:
    """The program has no reference to the client any more."""
    output_of(url, HOLD, "del client; import gc; gc.collect()")
    assert_released(other)


def test_daemon_threads_learn_of_the_loss_first(url: str) -> None:
    """A daemon thread may go on with the work while the interpreter ends."""
    said = output_of(
        url,
        """
        import atexit, os, threading
        seen = threading.Event()
        atexit.register(seen.wait, 60)  # the handler of Fencelock runs before this one
        """,
        HOLD,
        """
        def work():
            lease.lost.wait()
            print("lost:", lease.state.value, flush=True)
            try:
                lease.check()
            except fencelock.LeaseLost as error:
                print(error.reason, flush=True)
            seen.set()
        threading.Thread(target=work, daemon=True).start()
        """,
    )
    assert said.splitlines() == ["lost: lost", "its program has ended"]


def test_a_daemon_thread_that_waits_leaves_the_queue(url: str, other: fencelock.Client) -> None:
    held = other.lock("x", ttl=TTL).acquire()
    output_of(
        url,
        """
        import sys, threading, time, fencelock
        client = fencelock.Client(sys.argv[1])
        threading.Thread(target=client.lock("x", ttl=3600).acquire, daemon=True).start()
        while not client.inspect("x").waiting:
            time.sleep(0.01)
        """,
    )
    assert other.inspect("x").waiting == 0
    held.release()


def test_a_ticket_that_the_sweeper_has_not_taken_out_yet(url: str, other: fencelock.Client) -> None:
    """The release was interrupted just before the program ended."""
    output_of(
        url,
        HOLD,
        """
        client._context.sweeper.start = lambda: None  # its thread has no time any more
        lease._give_up()
        """,
    )
    assert_released(other)


@pytest.mark.parametrize("how", ["freeze", "kill"])
def test_a_program_ends_although_its_engine_is_gone(how: str, redis_server: RedisFactory) -> None:
    server = redis_server()
    with Program.of(server.url, HOLD, "print('held', flush=True); sys.stdin.read()") as program:
        program.expect("held")
        getattr(server, how)()
        assert program.end() == 0
        assert "Traceback" not in program.output


def test_with_asyncio_the_lease_expires(url: str, other: fencelock.Client) -> None:
    """The event loop has ended, so nothing can be sent. The program is told to use `async with`."""
    source = """
        import asyncio, sys, fencelock
        client = fencelock.AsyncClient(sys.argv[1])
        async def main():
            global lease
            lease = await client.lock("x", ttl=1).acquire()
        asyncio.run(main())
    """
    with Program.of(url, source) as program:
        assert program.end() == 0
        assert "Traceback" not in program.output
    assert other.lock("x").acquire().abandoned


FORKING = {
    "multiprocessing": """
        import multiprocessing
        child = multiprocessing.get_context("fork").Process(target=use)
        child.start()
        child.join()
        print(child.exitcode)
    """,
    "os.fork, and an end with all exit handlers": """
        import os, warnings
        warnings.filterwarnings("ignore", ".*multi-threaded, use of fork", DeprecationWarning)
        pid = os.fork()
        if not pid:
            use()
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """,
}


@pytest.mark.parametrize("how", FORKING)
@pytest.mark.parametrize("engine", ["redis", "sqlite"])
def test_a_child_does_not_release_what_its_parent_holds(
    how: str, engine: str, url: str, redis_server: RedisFactory
) -> None:
    url = redis_server().url if engine == "redis" else url
    said = output_of(
        url,
        HOLD,
        """
        def use():
            with client.lock("child"):
                assert client.lock("x").try_acquire() is None
        """,
        FORKING[how],
        """
        lease.renew()
        lease.release()
        """,
    )
    assert said.splitlines() == ["0"]
