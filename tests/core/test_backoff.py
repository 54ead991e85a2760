"""Pauses between tries: they grow, they have a limit, and no two clients keep step."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from fencelock.core.backoff import Backoff


@given(st.floats(1e-6, 10), st.floats(1e-6, 100), st.integers(0, 2**32), st.integers(1, 80))
def test_every_pause_is_within_its_bounds(base: float, cap: float, seed: int, tries: int) -> None:
    backoff = Backoff(base, cap, Random(seed))
    for number in range(tries):
        ceiling = min(cap, base * 2.0**number)
        assert ceiling / 2 <= backoff.next() <= ceiling


def test_it_starts_small_again_after_a_success() -> None:
    backoff = Backoff(1.0, 1000.0, Random(1))
    for _ in range(8):
        backoff.next()
    assert backoff.next() > 100
    backoff.reset()
    assert backoff.next() <= 1.0


def test_clients_that_failed_together_do_not_return_together() -> None:
    pauses = {Backoff(1.0, 10.0, Random(seed)).next() for seed in range(100)}
    assert len(pauses) == 100


def test_the_same_seed_gives_the_same_pauses() -> None:
    one, other = (Backoff(0.1, 5.0, Random(3)) for _ in range(2))
    assert [one.next() for _ in range(9)] == [other.next() for _ in range(9)]
