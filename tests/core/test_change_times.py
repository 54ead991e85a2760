"""When changes happened that nobody has watched."""

from hypothesis import given
from hypothesis import strategies as st

from fencelock.core import change_times
from fencelock.core.change_times import ChangeTimes

Steps = list[tuple[int, float]]


def test_a_change_is_known_since_the_engine_had_come_as_far() -> None:
    known = ChangeTimes()
    known.reached(10, now=100)
    known.reached(20, now=101)
    assert known.known_since(7, now=105) == 100
    assert known.known_since(10, now=105) == 100
    assert known.known_since(11, now=105) == 101
    assert known.known_since(21, now=105) == 105


def test_an_answer_that_comes_late_changes_nothing() -> None:
    known = ChangeTimes()
    known.reached(20, now=100)
    known.reached(10, now=101)
    assert known.known_since(5, now=105) == 100


@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.0, 0.01, 0.04, 1.0])), max_size=60),
    st.integers(0, 150),
)
def test_never_too_early_and_hardly_too_late(gaps: Steps, number: int) -> None:
    known, steps, at, now = ChangeTimes(), [], 0, 100.0
    for more, pause in gaps:
        at, now = at + more, now + pause
        known.reached(at, now)
        steps.append((at, now))
    exact = next((moment for reached, moment in steps if reached >= number), now)
    assert exact <= known.known_since(number, now) <= exact + change_times._GRAIN


def test_what_is_long_past_is_remembered_with_less_care() -> None:
    known = ChangeTimes()
    for number in range(50_000):
        known.reached(number, number / 20)
        assert len(known._numbers) == len(known._moments) <= change_times._MAX_MOMENTS
    now = 50_000 / 20
    for number in (0, 1, 10, 1_000, 25_000, 49_000, 49_999):
        late = known.known_since(number, now) - number / 20
        assert 0 <= late <= change_times._GRAIN + change_times._BLUR * (now - number / 20)
