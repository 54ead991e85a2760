"""What the report says about the turns of the contenders."""

import time
from pathlib import Path

import pytest

from benchmarks.adapters.contract import AnyTurns, Turns
from benchmarks.adapters.ours import AsyncFencelock, Fencelock
from benchmarks.series import Series, Turn, Window
from benchmarks.turns import Diary, Pace, gather

SECOND = 1_000_000_000
MS = 1_000_000
WINDOW = Window(0, SECOND)


def turn(acquired: int, releasing: int, seat: int, asked: int = 0) -> Turn:
    return Turn(acquired * MS, releasing * MS, asked * MS, seat)


def test_a_hand_off_is_from_one_to_another() -> None:
    series = Series([turn(0, 1, 0), turn(2, 3, 0), turn(4, 5, 1), turn(9, 10, 0)], 2, WINDOW)
    assert series.per_second() == 2
    assert series.latency_us() == 2500, "the median of 1 ms and 4 ms"


def test_turns_after_the_end_do_not_count_but_what_was_waited_for_them_does() -> None:
    late = turn(1500, 1501, 1, asked=500)
    series = Series([turn(10, 11, 0, asked=9), late], 2, WINDOW, in_vain=[3 * SECOND])
    assert series.per_second() == 0
    assert series.unserved() == 1
    assert series.with_late_ones == 2
    assert series.wait_ms(0) == 1
    assert series.wait_ms(50) == 1000
    assert series.wait_ms(99) == 3000, "who waited in vain waited longest"


@pytest.mark.parametrize(("shares", "jain"), [([2, 2], 1.0), ([4, 0], 0.5), ([0, 0], 0.0)])
def test_fairness_is_jains_index(shares: list[int], jain: float) -> None:
    turns = [turn(n, n, seat) for seat, share in enumerate(shares) for n in range(share)]
    assert Series(turns, 2, WINDOW).fairness() == jain


def test_overlaps_are_counted() -> None:
    turns = [turn(0, 10, 0), turn(2, 3, 1), turn(5, 6, 2), turn(10, 11, 1)]
    assert Series(turns, 3, WINDOW).overlaps() == 2


def test_without_any_turn_there_is_nothing_to_boast_of() -> None:
    series = Series([], 2, WINDOW)
    assert (series.per_second(), series.unserved(), series.overlaps()) == (0, 2, 0)
    assert series.latency_us() == series.wait_ms(50) == float("inf")


def compete(adapter: type[AnyTurns], url: str) -> list[Diary]:
    contenders = gather(adapter, url, "x", range(2), 2)
    now = time.monotonic_ns()
    diaries = contenders.run(Window(now, now + 20 * MS), Pace(0.02, hold=0.001))
    contenders.close()
    return diaries


@pytest.mark.parametrize("adapter", [Fencelock, AsyncFencelock])
def test_contenders_take_turns(adapter: type[AnyTurns], tmp_path: Path) -> None:
    """Two contenders in one process. How often each of them had the lock depends on the machine."""
    for diary in compete(adapter, f"sqlite:///{tmp_path}/locks.db"):
        assert not diary.errors
        assert diary.turns or diary.asking_since
        assert all(asked <= acquired <= given for asked, acquired, given in diary.turns)


class Broken(Turns):
    label = "broken"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None: ...

    def acquire(self) -> None:
        raise OSError("no lock today")

    def release(self) -> None: ...


def test_who_fails_tries_again_and_it_is_written_down() -> None:
    for diary in compete(Broken, ""):
        assert not diary.turns
        assert set(diary.errors) == {"OSError: no lock today"}
