"""The decorator: what it refuses."""

from collections.abc import AsyncIterator, Iterator

import pytest

import fencelock


def test_a_generator_is_refused_for_it_would_run_unheld() -> None:
    with pytest.raises(TypeError, match="would run after the lock is released"):

        @fencelock.Client("memory://").locked("x")
        def numbers() -> Iterator[int]:
            yield 1

    with pytest.raises(TypeError, match="would run after the lock is released"):

        @fencelock.AsyncClient("memory://").locked("x")  # type: ignore[arg-type]
        async def numbers_too() -> AsyncIterator[int]:
            yield 1


@pytest.mark.parametrize("name", ["a:{month}", "a:{0}", "a:{}", "a:{day.x}:{b[0]}"])
def test_a_name_that_cannot_be_filled_in_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="no such argument: it has day"):

        @fencelock.Client("memory://").locked(name)
        def build(day: str) -> None: ...


def test_a_misspelt_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="tll"):
        fencelock.Client("memory://").locked("a", tll=60)
