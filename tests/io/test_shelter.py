"""Calls in the shelter: no signal handler runs there, and no interruption breaks anything."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from fencelock.io import shelter
from fencelock.io.shelter import aside, sheltered
from tests.waiting import PATIENCE, eventually


@pytest.fixture(autouse=True)
def _few_helpers() -> Iterator[None]:
    yield
    assert len(shelter._idle) <= 2


def test_the_main_thread_calls_elsewhere() -> None:
    assert sheltered(PATIENCE, threading.current_thread) is not threading.current_thread()
    assert sheltered(PATIENCE, threading.get_ident) == sheltered(PATIENCE, threading.get_ident)


def test_other_threads_call_by_themselves() -> None:
    def call() -> None:
        where.append(sheltered(PATIENCE, threading.current_thread))

    where: list[threading.Thread] = []
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert where == [thread]


def test_errors_come_through() -> None:
    def fail(text: str) -> None:
        raise LookupError(text)

    with pytest.raises(LookupError, match="nothing there"):
        sheltered(PATIENCE, fail, "nothing there")


def test_an_interruption_ends_the_wait_and_not_the_call() -> None:
    def interrupt(*_: object) -> None:  # as Ctrl-C does
        if not hit:
            hit.append(True)
            raise KeyboardInterrupt

    def ring() -> bool:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        return bool(hit)

    def work() -> None:
        # Again and again: Python overlooks a signal that comes just before it begins to wait.
        eventually(ring, "the interruption")
        assert go_on.wait(PATIENCE)
        done.append(True)

    go_on, hit, done = threading.Event(), list[bool](), list[bool]()
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            sheltered(PATIENCE, work)
        assert not done
        assert sheltered(PATIENCE, len, "another call meanwhile") == 22
        go_on.set()
        eventually(lambda: done, "the call's end")
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_call_that_hangs_is_left() -> None:
    hanging = threading.Event()
    with pytest.raises(TimeoutError):
        aside(0.01, hanging.wait, PATIENCE)
    assert aside(PATIENCE, len, "four") == 4
    hanging.set()


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelter, "_IDLE", 0.01)
    thread = sheltered(PATIENCE, threading.current_thread)
    eventually(lambda: not thread.is_alive(), "the thread's end")
    assert sheltered(PATIENCE, len, "four") == 4


def test_a_child_has_its_own_threads() -> None:
    assert sheltered(PATIENCE, len, "four") == 4
    child = os.fork()
    if not child:
        os._exit(sheltered(PATIENCE, len, "four"))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
