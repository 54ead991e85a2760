"""The registry of those who wait: one listener, whoever starts it and however it ends."""

import threading

import pytest

from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.sql.broken import DatabaseFailed
from fencelock.engines.sql.ears import Ears
from fencelock.io.blocking import BlockingIO, run
from fencelock.io.contract import Event
from tests.engines.sql.test_pool import FakeWire
from tests.waiting import eventually

ONE = Ticket("name", "id", 30.0, Owner("host", 1))


class FakeEars(Ears[FakeWire]):
    """Listens to the test."""

    def __init__(self) -> None:
        super().__init__(BlockingIO())
        self.opened = 0
        self.trouble: Exception | None = None

    async def _opened(self, deadline: float) -> FakeWire:
        self.opened += 1
        return FakeWire()

    async def _listen(self, wire: FakeWire | None, alarm: Event) -> None:
        await alarm.wait()
        if self.trouble is not None:
            raise self.trouble
        self._retire()

    def end(self, trouble: Exception | None = None) -> None:
        task, alarm, self.trouble = self._task, self._alarm, trouble
        assert task is not None
        assert alarm is not None
        alarm.set()
        run(task.join())


def test_many_who_start_it_start_one() -> None:
    """Each may have looked just before another one was done."""
    for _ in range(100):
        ears = FakeEars()
        threads = [threading.Thread(target=lambda: run(ears.start(5))) for _ in range(8)]  # noqa: B023
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ears.opened == 1
        run(ears.close())


def test_news_that_came_before_anyone_sleeps() -> None:
    ears = FakeEars()
    run(ears.start(5))
    assert ears.expect(ONE)
    ears._deliver("id 2 7 0 0")
    assert run(ears.hear("id", 5)) == "2 7 0 0"
    assert run(ears.hear("id", 0.01)) is None
    ears._deliver("id")
    assert run(ears.hear("id", 5)) is None, "look again"
    run(ears.close())


@pytest.mark.parametrize(
    "trouble",
    [DatabaseFailed("the server hung up", "unknown"), OSError("what nobody has thought of")],
)
def test_nobody_is_left_asleep_when_it_is_lost(trouble: Exception) -> None:
    ears = FakeEars()
    run(ears.start(5))
    ears.expect(ONE)
    heard: list[object] = []

    def sleep() -> None:
        try:
            heard.append(run(ears.hear("id", 60)))
        except DatabaseFailed as error:
            heard.append(error)

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    ears.end(trouble)
    sleeper.join(10)
    # It slept already, or had not begun to.
    assert heard == [None] or str(trouble) in str(heard)
    assert not ears.expect(ONE), "nobody listens now"
    run(ears.start(5))
    assert ears.expect(ONE)
    run(ears.close())


def test_one_who_sleeps_is_roused() -> None:
    ears = FakeEars()
    run(ears.start(5))
    ears.expect(ONE)
    ears.interrupt("id")  # nobody sleeps yet
    heard: list[object] = []
    sleeper = threading.Thread(target=lambda: heard.append(run(ears.hear("id", 60))))
    sleeper.start()

    def back() -> bool:
        ears.interrupt("id")
        return not sleeper.is_alive()

    eventually(back, "it to come back")
    assert heard == [None]
    ears.interrupt("a stranger")
    run(ears.close())


def test_closed_for_good() -> None:
    ears = FakeEars()
    run(ears.start(5))
    run(ears.close())
    with pytest.raises(DatabaseFailed, match="the client was closed"):
        run(ears.start(5))
