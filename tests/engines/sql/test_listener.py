"""The listener: there is one, whichever waiter starts it, and its end wakes all waiters."""

import threading

import pytest

from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.sql.listener import Listener
from fencelock.io.blocking import BlockingIO, run
from fencelock.io.contract import Event
from tests.engines.sql.test_pool import FakeWire
from tests.waiting import eventually

ONE = Ticket("name", "id", 30.0, Owner("host", 1))


async def ask_nothing(request: object, timeout: float) -> list[str]:
    raise NotImplementedError


class FakeListener(Listener[FakeWire]):
    """Gets its wake-ups from the test."""

    def __init__(self) -> None:
        super().__init__(ask_nothing, BlockingIO())
        self.opened = 0
        self.failure: Exception | None = None

    async def _connect(self, deadline: float) -> FakeWire:
        self.opened += 1
        return FakeWire()

    async def _listen(self, wire: FakeWire | None, interrupted: Event) -> None:
        await interrupted.wait()
        if self.failure is not None:
            raise self.failure
        self._retire()

    def end(self, failure: Exception | None = None) -> None:
        task, interrupted, self.failure = self._task, self._interrupted, failure
        assert task is not None
        assert interrupted is not None
        interrupted.set()
        run(task.join())


def test_many_callers_start_one_listener() -> None:
    """Each caller may have looked just before another caller was done."""
    for _ in range(100):
        listener = FakeListener()
        threads = [threading.Thread(target=lambda: run(listener.start(5))) for _ in range(8)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert listener.opened == 1
        run(listener.close())


def test_a_wake_up_before_the_waiter_sleeps() -> None:
    listener = FakeListener()
    run(listener.start(5))
    assert listener.subscribe(ONE)
    listener._deliver("id 2 7 0 0")
    assert run(listener.sleep("id", 5)) == "2 7 0 0"
    assert run(listener.sleep("id", 0.01)) is None
    listener._deliver("id")
    assert run(listener.sleep("id", 5)) is None, "look again"
    run(listener.close())


@pytest.mark.parametrize(
    "failure",
    [RequestFailed("the server hung up", "unknown"), OSError("an unexpected error")],
)
def test_its_failure_wakes_all_waiters(failure: Exception) -> None:
    listener = FakeListener()
    run(listener.start(5))
    listener.subscribe(ONE)
    heard: list[object] = []

    def sleep() -> None:
        try:
            heard.append(run(listener.sleep("id", 60)))
        except RequestFailed as error:
            heard.append(error)

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    listener.end(failure)
    sleeper.join(10)
    # It slept already, or had not begun to.
    assert heard == [None] or str(failure) in str(heard)
    assert not listener.subscribe(ONE), "there is no listener now"
    run(listener.start(5))
    assert listener.subscribe(ONE)
    run(listener.close())


def test_an_interruption_ends_a_sleep() -> None:
    listener = FakeListener()
    run(listener.start(5))
    listener.subscribe(ONE)
    listener.interrupt("id")  # nobody sleeps yet
    heard: list[object] = []
    sleeper = threading.Thread(target=lambda: heard.append(run(listener.sleep("id", 60))))
    sleeper.start()

    def back() -> bool:
        listener.interrupt("id")
        return not sleeper.is_alive()

    eventually(back, "the sleep to end")
    assert heard == [None]
    listener.interrupt("unknown")
    run(listener.close())


def test_closed_for_good() -> None:
    listener = FakeListener()
    run(listener.start(5))
    run(listener.close())
    with pytest.raises(RequestFailed, match="the client was closed"):
        run(listener.start(5))
