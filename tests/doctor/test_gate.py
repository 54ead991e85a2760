"""Clients that examine their set-up first, and what they do if it gives less than they need."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fencelock
from tests.doctor.examining import examined
from tests.servers import RedisServer


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("gate")) as server:
        yield server


@pytest.fixture
def server(one: RedisServer) -> Iterator[RedisServer]:
    """A server that is good enough, and empty."""
    yield one
    one.config(maxmemory=0, maxmemory_policy="noeviction")
    one.execute("FLUSHALL")


def test_a_client_refuses_a_set_up_that_gives_less(server: RedisServer) -> None:
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    with fencelock.Client(server.url, diagnose=True) as client:
        assert client.names() == [], "only locks are refused"
        for take in (client.lock("x").acquire, client.lock_all(["x", "y"]).acquire):
            with pytest.raises(fencelock.UnsafeEngine, match="noeviction"):
                take()
        server.config(maxmemory_policy="noeviction")
        with client.lock("x"):
            server.config(maxmemory_policy="allkeys-lru")
        with client.lock("x"):
            pass  # it was examined at the first contact


def test_a_client_says_what_it_could_not_find_out(
    server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    blind = server.add_user("blind", "hunter2", "~*", "&*", "+@all", "-info")
    with fencelock.Client(blind, diagnose=True) as client:
        for _ in range(2):
            with client.lock("x"):
                pass
    (warning,) = [each.getMessage() for each in caplog.records if each.name == "fencelock.engine"]
    assert warning.startswith(
        "not known whether this set-up gives efficiency: role: INFO was refused"
    )


async def test_a_client_for_asyncio_does_too(server: RedisServer) -> None:
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    async with fencelock.AsyncClient(server.url, diagnose=True) as client:
        locks = [client.lock(f"{n}") for n in range(20)]
        refused = await asyncio.gather(*(lock.acquire() for lock in locks), return_exceptions=True)
        assert {type(each) for each in refused} == {fencelock.UnsafeEngine}
        server.config(maxmemory_policy="noeviction")
        await asyncio.gather(*(lock.acquire() for lock in locks))
        assert len(await client.names()) == 20


def test_routes_are_examined_part_by_part(server: RedisServer, tmp_path: Path) -> None:
    file = f"sqlite:///{tmp_path}/locks.db"
    routes: dict[str, Any] = {"order:*": server.url, "*": file}
    server.config(maxmemory="1gb", maxmemory_policy="allkeys-lru")
    report = examined(routes)
    assert [(part.engine, part.names) for part in report.parts] == [
        ("redis", ("order:*",)),
        ("sqlite", ("*",)),
    ]
    assert (report.verdict, [each.id for each in report.in_the_way]) == ("not safe", ["eviction"])
    with fencelock.Client(routes, diagnose=True) as client:
        with client.lock("another"):
            pass
        with pytest.raises(fencelock.UnsafeEngine):
            client.lock("order:1").acquire()
