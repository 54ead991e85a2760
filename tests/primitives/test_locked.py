"""The decorator: how a function gets its lease, and what is refused."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import fencelock


def first(lease: fencelock.Lease, day: str, times: int = 2) -> str:
    return f"{lease.name} {day} {times}"


def by_keyword(day: str, times: int = 2, *, lease: fencelock.Lease) -> str:
    return f"{lease.name} {day} {times}"


def positional_only(lease: fencelock.Lease, /, day: str, times: int = 2) -> str:
    return f"{lease.name} {day} {times}"


def in_the_middle(day: str, lease: fencelock.Lease, times: int = 2) -> str:
    return f"{lease.name} {day} {times}"


def after_any_number(*days: str, lease: fencelock.Lease) -> str:
    return f"{lease.name} {days[0]} {int(days[1]) if days[1:] else 2}"


@pytest.mark.parametrize(
    "function", [first, by_keyword, positional_only, in_the_middle, after_any_number]
)
def test_a_function_gets_its_lease_wherever_it_takes_it(function: Callable[..., str]) -> None:
    run: Callable[..., str] = fencelock.Client("memory://").locked("x")(function)
    assert "lease" not in inspect.signature(run).parameters, "callers leave it out"
    assert run("monday") == "x monday 2"
    assert run("monday", "3") == "x monday 3"
    if function is not after_any_number:
        assert run(day="monday", times=3) == "x monday 3"
    with pytest.raises(TypeError, match="lease"):
        run("monday", lease="mine")


class Press:
    client = fencelock.Client("memory://")
    async_client = fencelock.AsyncClient("memory://")

    @client.locked("x:{day}")
    def build(self, lease: fencelock.Lease, day: str) -> str:
        """Print it."""
        return f"{lease.name} {day}"

    @async_client.locked("y:{day}")
    async def build_soon(self, lease: fencelock.AsyncLease, day: str) -> str:
        return f"{lease.name} {day}"


async def test_a_method_gets_its_lease_after_self() -> None:
    assert Press().build("monday") == "x:monday monday"
    assert Press().build(day="monday") == "x:monday monday"
    assert Press.build.__doc__ == "Print it."
    async with Press.async_client:
        assert await Press().build_soon("tuesday") == "y:tuesday tuesday"


def test_a_generator_is_refused_for_it_would_run_unheld() -> None:
    with pytest.raises(TypeError, match="would run after the lock is released"):

        @fencelock.Client("memory://").locked("x")
        def numbers() -> Iterator[int]:
            yield 1

    with pytest.raises(TypeError, match="would run after the lock is released"):

        @fencelock.AsyncClient("memory://").locked("x")  # type: ignore[arg-type]
        async def numbers_too() -> AsyncIterator[int]:
            yield 1


@pytest.mark.parametrize("name", ["a:{month}", "a:{0}", "a:{}", "a:{day.x}:{b[0]}", "a:{lease}"])
def test_a_name_that_cannot_be_filled_in_is_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="no such argument: it has day"):

        @fencelock.Client("memory://").locked(name)
        def build(lease: fencelock.Lease, day: str) -> None: ...


def test_a_wrong_option_is_refused_at_once() -> None:
    client: Any = fencelock.Client("memory://")
    with pytest.raises(TypeError, match="no option 'tll' here: the options are guard, label"):
        client.locked("a", tll=60)
    with pytest.raises(ValueError, match="ttl"):
        client.locked("a", ttl=-1)
