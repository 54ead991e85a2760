"""Expiry by observation: a renewal just before the ticket is taken out saves it."""

import asyncio
from operator import attrgetter
from typing import Any
from uuid import uuid4

import pytest

from fencelock.core.ticket import Owner, Place, Ticket
from fencelock.engines.registry import open_engine
from fencelock.io.asyncio import AsyncioIO
from fencelock.primitives.waiting import new_id


@pytest.mark.parametrize(
    ("engine", "part", "step"),
    [("etcd", "_tickets.markers", "write"), ("zookeeper", "_queues", "expire")],
)
async def test_renewed_in_the_last_moment(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    engine: str,
    part: str,
    step: str,
) -> None:
    url = request.getfixturevalue(f"{engine}_url")
    ahead, behind = open_engine(url, AsyncioIO()), open_engine(url, AsyncioIO())
    name = f"late:{uuid4().hex}"
    holder = Ticket(name, new_id(), 1.0, Owner("host", 1))
    waiter = Ticket(name, new_id(), 30.0, Owner("host", 2))
    remover = attrgetter(part)(behind)
    take_out = getattr(remover, step)
    attempts = 0

    async def after_a_renewal(*args: Any) -> Any:
        nonlocal attempts
        attempts += 1
        await ahead.renew([holder], timeout=30)
        return await take_out(*args)

    try:
        await ahead.enter(holder, if_free=False, timeout=30)
        standing = await behind.enter(waiter, if_free=False, timeout=30)
        monkeypatch.setattr(remover, step, after_a_renewal)
        await asyncio.sleep(standing.recheck + 0.05)  # time itself is under test
        standing = await behind.enter(waiter, if_free=False, timeout=30)
        assert attempts == 1, "it was about to be taken out"
        assert standing.place is Place.WAITING
        (renewed,) = await ahead.renew([holder], timeout=30)
        assert renewed is not None
        assert renewed.place is Place.ADMITTED
    finally:
        await behind.close()
        await ahead.close()
