"""Habits from other libraries: what does not exist here is refused with the word to use."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

import fencelock
from fencelock.client import CommonOptions, OnceOptions, Options, RateOptions
from fencelock.primitives import habits
from fencelock.primitives.rate import AsyncRate, Rate

TABLES: dict[str, tuple[dict[str, str], tuple[type, ...]]] = {
    "lock": (habits.OF_LOCKS, (fencelock.Lock, fencelock.AsyncLock)),
    "lease": (habits.OF_LEASES, (fencelock.Lease, fencelock.AsyncLease)),
    "rate": (habits.OF_RATES, (Rate, AsyncRate)),
    "client": (habits.OF_CLIENTS, (fencelock.Client, fencelock.AsyncClient)),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_table_has_only_what_does_not_exist(kind: str) -> None:
    table, classes = TABLES[kind]
    for each in classes:
        assert not table.keys() & set(dir(each))
    known = (
        Options.__optional_keys__ | OnceOptions.__optional_keys__ | RateOptions.__optional_keys__
    )
    assert not habits.OF_OPTIONS.keys() & (known | CommonOptions.__optional_keys__)


def test_every_word_that_is_advised_exists() -> None:
    tables = [*(table for table, _ in TABLES.values()), habits.OF_OPTIONS]
    text = " ".join(" ".join(table.values()) for table in tables)
    advised = re.findall(r"\b(lock|lease|rate|client)\.(\w+)", text)
    assert len(advised) > 30
    for kind, word in advised:
        for each in TABLES[kind][1]:
            assert hasattr(each, word), f"{kind}.{word}"


@pytest.fixture(params=[fencelock.Client, fencelock.AsyncClient])
def client(request: pytest.FixtureRequest) -> Any:
    return request.param("memory://")


@pytest.mark.parametrize(
    ("habit", "word"),
    [
        ("release", r"lease\.release\(\)"),
        ("extend", r"lease\.renew\(\)"),
        ("renew", r"lease\.renew\(\)"),
        ("owned", r"`if lease:`"),
        ("fence", r"returns the lease, which has it"),
    ],
)
def test_a_method_of_a_lock_of_another_library(client: Any, habit: str, word: str) -> None:
    lock = client.lock("x")
    with pytest.raises(AttributeError, match=f"has no attribute '{habit}': .*{word}"):
        getattr(lock, habit)


def test_a_method_of_a_client_of_another_library(client: Any) -> None:
    with pytest.raises(AttributeError, match=r"'Lock': client\.lock\(name\)"):
        client.Lock("x")
    with pytest.raises(AttributeError, match=r"'release': .* it expires"):
        client.rate("x", 1).release()


@pytest.mark.parametrize("habit", ["extend", "unlock", "owned", "token", "expires_in"])
def test_a_method_of_a_lease_of_another_library(habit: str) -> None:
    client = fencelock.Client("memory://")
    with client.lock("x") as lease, pytest.raises(AttributeError, match=f"'{habit}': .*lease"):
        getattr(lease, habit)


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ("blocking_timeout", "timeout=…"),
        ("expire", "ttl=…"),
        ("blocking", "timeout=0"),
        ("sleep", "poll"),
    ],
)
def test_an_option_of_another_library(client: Any, option: str, word: str) -> None:
    with pytest.raises(TypeError, match=f"no option '{option}' here: .*{word}.*; the options are"):
        client.lock("x", **{option: 5})


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"blocking": False}, "try_acquire"),
        ({"blocking_timeout": 1}, "timeout=…"),
        ({"nonsense": 1}, "nonsense': the only option is timeout"),
    ],
    ids=str,
)
async def test_an_option_of_acquire_of_another_library(
    client: Any, options: dict[str, Any], word: str
) -> None:
    with pytest.raises(TypeError, match=f"acquire.. has no option '.*{word}"):
        await client.lock("x").acquire(**options)


async def test_acquire_without_waiting_as_threading_has_it(client: Any) -> None:
    with pytest.raises(TypeError, match=r"not bool: try_acquire\(\) does not wait"):
        await client.lock("x").acquire(False)


def test_any_other_name_is_as_unknown_as_ever(client: Any) -> None:
    lock = client.lock("x")
    for thing in (client, lock):
        assert not hasattr(thing, "frobnicate")
        assert getattr(thing, "release_lock", None) is None
        with pytest.raises(AttributeError, match=r"has no attribute 'frobnicate'$") as caught:
            thing.frobnicate()
        assert caught.value.obj is thing  # so that Python can suggest a similar name
    assert copy.copy(lock).name == "x"
