"""The private method of `threading.RLock` on which `io/reentry.py` relies."""

from __future__ import annotations

import threading

import pytest

from fencelock.io.reentry import ownership


def test_this_python_can_say_who_holds_a_mutex() -> None:
    if not hasattr(threading.RLock(), "_is_owned"):
        pytest.fail("this Python's RLock has no _is_owned(): give io/reentry.py another way to ask")


def test_only_the_thread_that_holds_a_mutex_is_told_so() -> None:
    mutex = threading.RLock()
    held_here = ownership(mutex)
    assert held_here() is False
    with mutex, mutex:
        assert held_here() is True
        answers: list[bool] = []
        other = threading.Thread(target=lambda: answers.append(held_here()))
        other.start()
        other.join()
        assert answers == [False]
    assert held_here() is False
