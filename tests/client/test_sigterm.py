"""`release_on_sigterm`: SIGTERM ends a program in order, if the program has no handler of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencelock
from tests.primitives.test_program_end import assert_released
from tests.program import Program


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def other(url: str) -> Iterator[fencelock.Client]:
    with fencelock.Client(url) as client:
        yield client


START = """
    import asyncio, signal, sys, threading, time, fencelock

    def busy():
        print("busy", flush=True)
        time.sleep(3600)
"""
CLIENT = """
    client = fencelock.Client(sys.argv[1], ttl=3600)
    client.release_on_sigterm()
    client.release_on_sigterm()
"""
BLOCKING = {
    "in a block": """
        with client.lock("x"):
            try:
                busy()
            finally:
                print("the block ends", flush=True)
    """,
    "without a block": """
        lease = client.lock("x").acquire()
        try:
            busy()
        finally:
            print("the block ends", flush=True)
    """,
    "while it waits": """
        lease = client.lock("x").acquire()
        def announce():
            while not client.inspect("x").waiting:
                time.sleep(0.01)
            print("busy", flush=True)
        threading.Thread(target=announce, daemon=True).start()
        try:
            fencelock.Client(sys.argv[1]).lock("x").acquire()
        finally:
            print("the block ends", flush=True)
    """,
}


@pytest.mark.parametrize("work", BLOCKING)
def test_what_is_held_is_released(work: str, url: str, other: fencelock.Client) -> None:
    with Program.of(url, START, CLIENT, BLOCKING[work]) as program:
        program.expect("busy")
        program.terminate()
        assert program.wait() == 143
        assert program.output.splitlines() == ["busy", "the block ends"]
    assert_released(other)
    assert not other.inspect("x").waiting


ASYNCIO = """
    async def main():
        client = fencelock.AsyncClient(sys.argv[1], ttl=3600)
        client.release_on_sigterm()
        async with client, client.lock("x"):
            print("busy", flush=True)
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                print("cancelled", flush=True)
                raise

    asyncio.run(main())
"""


def test_with_asyncio_the_task_is_cancelled(url: str, other: fencelock.Client) -> None:
    with Program.of(url, START, ASYNCIO) as program:
        program.expect("busy")
        program.terminate()
        assert program.wait() == 143
        assert program.output.splitlines()[:2] == ["busy", "cancelled"]
    assert_released(other)


def test_a_second_signal_does_not_cut_the_release_short(url: str, other: fencelock.Client) -> None:
    work = """
        import os
        lease = client.lock("x").acquire()
        sweep = client._context.sweeper.close
        async def terminated_again():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0)  # Python runs signal handlers here
            await sweep()
        client._context.sweeper.close = terminated_again
        busy()
    """
    with Program.of(url, START, CLIENT, work) as program:
        program.expect("busy")
        program.terminate()
        assert program.wait() == 143
        assert program.output == "busy\n"
    assert_released(other)


@pytest.mark.parametrize(
    ("own", "status"),
    [("lambda *_: sys.exit(7)", 7), ("signal.SIG_IGN", 0)],
    ids=["a handler", "the signal is ignored"],
)
def test_what_the_program_chose_itself_stays(own: str, status: int, url: str) -> None:
    work = f"""
        own = {own}
        signal.signal(signal.SIGTERM, own)
        client = fencelock.Client(sys.argv[1])
        client.release_on_sigterm()
        assert signal.getsignal(signal.SIGTERM) == own
        print("busy", flush=True)
        sys.stdin.read()
    """
    with Program.of(url, START, work) as program:
        program.expect("busy")
        program.terminate()
        assert program.end() == status


def test_only_in_the_main_thread() -> None:
    refused: list[str] = []

    def call() -> None:
        with fencelock.Client("memory://sigterm") as client:
            try:
                client.release_on_sigterm()
            except fencelock.FencelockError as error:
                refused.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert "only be called in the main thread" in refused[0]
