"""A correctness lock without a guard says so, once for each place."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest

import fencelock
from fencelock import UnguardedLock
from fencelock.guards import Gate
from fencelock.primitives import unguarded


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unguarded, "_told", set())


@pytest.fixture
def client() -> Iterator[fencelock.Client]:
    with fencelock.Client("memory://", purpose="correctness") as client:
        yield client


def test_it_is_said_once_for_each_place(client: fencelock.Client) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for number in range(3):
            client.lock(f"order:{number}")
        client.rwlock("here").write()
    first, second = caught
    assert first.filename == __file__
    assert "guard=None" in str(first.message)
    assert second.lineno == first.lineno + 1


def test_each_kind_of_lock_that_takes_a_guard() -> None:
    with fencelock.Client("memory://") as client:
        with pytest.warns(UnguardedLock):
            client.lock("a", purpose="correctness")
        with pytest.warns(UnguardedLock):
            client.rwlock("a", purpose="correctness").write()
        with pytest.warns(UnguardedLock) as caught:

            @client.locked("a", purpose="correctness")
            def work() -> str:
                return "done"

        assert len(caught) == 1
        assert work() == "done"  # nothing more to say: this would be an error


async def test_in_asyncio() -> None:
    async with fencelock.AsyncClient("memory://", purpose="correctness") as client:
        with pytest.warns(UnguardedLock):
            client.lock("a")


def test_nothing_is_said_where_nothing_is_missing(client: fencelock.Client) -> None:
    client.lock("a", guard=None)
    client.lock("a", guard=Gate())
    client.lock("a", purpose="efficiency")
    client.rwlock("a", guard=None).write()
    client.semaphore("a", 3)
    client.semaphore("a", 3, label="me")
    client.lock_all(["a", "b"])
    client.election("a")
    client.transaction()
    client.scheduled("a", at_most_every=60)
    assert client.once("b", lambda: "done") == "done"
    with pytest.warns(UnguardedLock):
        rwlock = client.rwlock("a")
    rwlock.read()


def test_a_team_can_make_it_an_error_or_hide_it(client: fencelock.Client) -> None:
    with pytest.raises(UnguardedLock):  # as pytest is told to do with all warnings
        client.lock("a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnguardedLock)
        client.lock("a")
