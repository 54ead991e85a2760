"""Ctrl-C while a client connects: afterwards it works."""

import threading
from itertools import count

import pytest

import fencelock
from tests.cutting_short import InterruptAt
from tests.waiting import eventually


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a socket may be dropped between two steps
def test_interrupted_while_it_connects(zookeeper_url: str) -> None:
    threads = threading.active_count()
    for k in count():
        with fencelock.Client(zookeeper_url) as client:
            interrupt = InterruptAt(k)
            interrupt(client.names)
            # The connection that was interrupted may end while the next request is under way.
            eventually(lambda: answers(client), f"an answer after {interrupt.where}")
        eventually(
            lambda: threading.active_count() <= threads, f"its threads to end, {interrupt.where}"
        )
        if interrupt.where is None:
            break
    assert k > 30, "this was to be a long list of steps"


def answers(client: fencelock.Client) -> bool:
    try:
        client.names()
    except fencelock.EngineError:
        return False
    return True
