"""The keeper goes on, whatever an engine does to it."""

from typing import Any

import pytest

import fencelock
from fencelock import testing
from tests.waiting import eventually


def test_an_engine_that_fails_as_nobody_expects_does_not_end_renewals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with fencelock.Client("memory://keeper") as client:
        renew = client._context.engine.renew
        failures = [ValueError("an answer that makes no sense")]

        async def fail_once(*args: Any, **options: Any) -> Any:
            if failures:
                raise failures.pop()
            return await renew(*args, **options)

        monkeypatch.setattr(client._context.engine, "renew", fail_once)
        lease = client.lock("a", ttl=3).acquire()
        eventually(lambda: lease.state is fencelock.LeaseState.SUSPENDED, "the failure")
        eventually(lambda: lease.state is fencelock.LeaseState.HELD, "the next renewal")
        lease.release()
    assert "an answer that makes no sense" in caplog.text


def test_it_does_not_hurry_when_the_engine_refuses_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Least of all shortly before the deadline, when a renewal may be early to go along with others."""
    for _ in range(20):  # when exactly it tries again is random
        with testing.Client(ttl=30) as client:
            lease = client.lock("x").acquire()
            client.fail_next("renew", times=1_000)
            client.clock.advance(30)
            assert lease.lost
    assert caplog.text.count("could not renew") < 20 * 20
