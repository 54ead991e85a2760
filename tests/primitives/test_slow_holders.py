"""`warn_after`: a lease that is held for too long is logged with the place where it was acquired."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

import fencelock
from fencelock import observe
from tests.observe.recorder import Recorder
from tests.waiting import eventually, soon


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "fencelock.lease"]


def take_it_here(client: fencelock.Client, name: str, **options: Any) -> fencelock.Lease:
    return client.lock(name, **options).acquire()


def test_it_is_logged_once_with_its_place(caplog: pytest.LogCaptureFixture) -> None:
    heard = Recorder()
    with fencelock.Client("memory://", warn_after=0.05, ttl=0.3, observers=[heard]) as client:
        lease = take_it_here(client, "slow")
        with client.lock("quick"):
            pass
        eventually(lambda: warnings(caplog), "the warning")
        eventually(lambda: len(heard.heard(observe.Renewed)) > 3, "several turns of the keeper")
        lease.release()
    (warning,) = warnings(caplog)
    assert "'slow'" in warning
    assert "in take_it_here" in warning
    assert "client.lock(name, **options).acquire()" in warning
    (event,) = heard.heard(observe.HeldLong)
    assert event.held_for >= 0.05
    assert not heard.oddities()


def test_a_lock_has_its_own(caplog: pytest.LogCaptureFixture) -> None:
    with fencelock.Client("memory://", warn_after=3600) as client:
        with client.lock("patient"), client.lock_all(["a", "b"], warn_after=0.02):
            eventually(lambda: len(warnings(caplog)) == 2, "the warnings")
        assert not client._context._slow.rows, "nothing is kept of leases that have ended"
    assert {line.split("'")[1] for line in warnings(caplog)} == {"a", "b"}
    assert all("test_a_lock_has_its_own" in line for line in warnings(caplog))


def test_a_transaction_and_a_leader(caplog: pytest.LogCaptureFixture) -> None:
    with fencelock.Client("memory://", warn_after=0.02) as client:
        election, asked = client.election("leader"), client.election("asked", warn_after=0.02)
        election.campaign()
        asked.campaign()
        with client.transaction() as transaction:
            transaction.lock("slow")
            eventually(lambda: len(warnings(caplog)) == 2, "the warnings")
        election.resign()
        asked.resign()
    assert {line.split("'")[1] for line in warnings(caplog)} == {"asked", "slow"}
    assert 'transaction.lock("slow")' in warnings(caplog)[1]


async def test_in_asyncio(caplog: pytest.LogCaptureFixture) -> None:
    async with fencelock.AsyncClient("memory://") as client, client.lock("slow", warn_after=0.02):
        await soon(lambda: warnings(caplog), "the warning")
        await asyncio.sleep(0)
    (warning,) = warnings(caplog)
    assert 'client.lock("slow", warn_after=0.02)' in warning


@pytest.mark.parametrize("wrong", [0, -1, math.nan, math.inf, "5", True])
def test_it_must_be_positive(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="warn_after must be"):
        fencelock.Client("memory://", warn_after=wrong)
    with pytest.raises((ValueError, TypeError), match="warn_after must be"):
        fencelock.Client("memory://").lock("x", warn_after=wrong)


def test_an_observer_that_comes_later_hears_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    heard = Recorder()
    with fencelock.Client("memory://", warn_after=0.05) as client, client.lock("order:42"):
        observe.add(heard)
        try:
            eventually(lambda: "has been held" in caplog.text, "the warning")
        finally:
            observe.remove(heard)
    assert not heard.heard(observe.HeldLong)
