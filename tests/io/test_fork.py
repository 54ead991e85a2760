"""After a fork, the child is told at once that the parent's client is not its own."""

from __future__ import annotations

import asyncio
import math
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Standing
from fencelock.io.asyncio import AsyncioIO
from fencelock.io.blocking import BlockingIO
from fencelock.io.process import Origin
from tests.waiting import PATIENCE


def in_child(act: Callable[[], str]) -> str:
    """What a function says in a forked child."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the test runner may have threads
        pid = os.fork()
    if pid == 0:
        try:
            said = act()
        except BaseException as error:  # whatever it is, the parent wants to know
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    return said


def test_the_child_is_refused_and_the_parent_is_not() -> None:
    io = BlockingIO()
    io.verify()

    def verify() -> str:
        io.verify()
        return "allowed"

    said = in_child(verify)
    assert said.startswith("FencelockError")
    assert f"belongs to process {os.getpid()} and can't be used in its child" in said
    assert "Acquire the lock again in the child" in said
    io.verify()


def test_an_asyncio_client_is_refused_in_the_child() -> None:
    io = AsyncioIO()

    def verify() -> str:
        async def use() -> None:
            io.verify()

        asyncio.run(use())
        return "allowed"

    assert in_child(verify).startswith("FencelockError")


def test_the_child_may_make_its_own() -> None:
    def verify() -> str:
        BlockingIO().verify()
        return "allowed"

    assert in_child(verify) == "allowed"


def test_a_grandchild_is_not_the_child() -> None:
    def verify() -> str:
        io = BlockingIO()

        def verify_again() -> str:
            io.verify()
            return "allowed"

        return in_child(verify_again)

    assert in_child(verify).startswith("FencelockError")


def test_whether_this_is_still_the_same_process() -> None:
    origin = Origin()
    assert origin.here
    assert in_child(lambda: str(origin.here)) == "False"
    origin.verify()


def test_the_parents_lease_is_not_given_back_by_the_child(tmp_path: Path) -> None:
    with fencelock.Client(f"sqlite:///{tmp_path}/locks.db") as client:
        lock = client.lock("x")
        lease = lock.__enter__()

        def leave_the_block() -> str:
            try:
                lock.__exit__(None, None, None)
            finally:
                end_of_threads()
            return "allowed"

        def look_too_late() -> str:
            lease._claim.deadline = -math.inf
            lost = lease.lost.is_set()
            end_of_threads()
            return str(lost)

        assert in_child(leave_the_block).startswith("FencelockError")
        assert in_child(look_too_late) == "True"
        lease.renew()
        lock.__exit__(None, None, None)


def test_a_child_that_was_forked_in_the_middle_of_a_request_does_not_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in a signal handler: both go on with the answer, but the lease is the parent's."""
    client, parent = fencelock.Client("memory://forked"), os.getpid()
    enter = client._context.engine.enter
    read, write = os.pipe()

    async def forked_meanwhile(*args: Any, **options: Any) -> Standing:
        standing = await enter(*args, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the test runner may have threads
            os.fork()
        return standing

    monkeypatch.setattr(client._context.engine, "enter", forked_meanwhile)
    try:
        client.lock("x").acquire()  # and not released, for that would be refused as well
        said = "it had the lock"
    except fencelock.FencelockError as error:
        said = str(error)
    if os.getpid() != parent:
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "can't be used in its child" in pipe.read()
    os.wait()
    assert said == "it had the lock"
    client.close()


def end_of_threads() -> None:
    """Wait for what was begun in the background."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(PATIENCE)
