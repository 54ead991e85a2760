"""After a fork, the child is told at once that the parent's client is not its own."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable

from holdfast.io.asyncio import AsyncioIO
from holdfast.io.blocking import BlockingIO
from holdfast.io.process import Origin


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
    assert said.startswith("HoldfastError")
    assert f"made in process {os.getpid()} and can't be used in its child" in said
    assert "Make a new Client in the child" in said
    io.verify()


def test_an_asyncio_client_is_refused_in_the_child() -> None:
    io = AsyncioIO()

    def verify() -> str:
        async def use() -> None:
            io.verify()

        asyncio.run(use())
        return "allowed"

    assert in_child(verify).startswith("HoldfastError")


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

    assert in_child(verify).startswith("HoldfastError")


def test_whether_this_is_still_the_same_process() -> None:
    origin = Origin()
    assert origin.here
    assert in_child(lambda: str(origin.here)) == "False"
    origin.verify()
