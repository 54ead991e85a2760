"""Requests that wait: they keep their place, they give it up, and the answer may come late."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from fencelock.core.errors import EngineError
from fencelock.service.app import Service
from fencelock.service.settings import Settings
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_service import Replica
from tests.service.rest.api import KEY, A, Api, B, C
from tests.waiting import PATIENCE, eventually


def waiting(api: Api, name: str, count: int) -> Any:
    """The waiters of a lock, as soon as there are so many."""
    eventually(lambda: api.show(name)["waiting"] == count, f"{count} waiters")
    return api.show(name)["waiters"]


def test_a_release_wakes_the_request_that_waits(api: Api, name: str) -> None:
    first = api.lock(name, "acquire", A)
    second = api.later(name, "acquire", B, wait=50, label="b")
    waiting(api, name, 1)
    api.lock(name, "release", A)
    held = second.result(PATIENCE)
    assert held.status == 200
    assert int(held.body["fence"]) > int(first.body["fence"])
    assert 29 < held.body["expires_in"] < 30  # its own ttl, not the short one of a waiter
    assert api.show(name)["holders"][0]["expires_in"] > 10


def test_the_same_key_keeps_the_place(api: Api, name: str) -> None:
    api.lock(name, "acquire", A)
    queued = api.lock(name, "acquire", B, wait=0.01)
    assert queued.status == 202
    assert queued.body == {"name": name, "expires_in": 10.0}
    assert api.lock(name, "acquire", C, wait=0.01).status == 202
    assert api.lock(name, "renew", B).status == 202
    assert api.lock(name, "acquire", B).status == 202  # in the queue, although it does not wait now
    api.lock(name, "release", A)
    assert api.lock(name, "acquire", C, wait=0.01).status == 202
    assert api.lock(name, "acquire", B, wait=50).status == 200
    assert api.lock(name, "release", C).status == 200  # it leaves the queue
    assert api.show(name)["waiters"] == []


def test_an_open_request_keeps_its_place_for_longer_than_its_ttl(api: Api, name: str) -> None:
    api.lock(name, "acquire", A)
    second = api.later(name, "acquire", B, ttl=0.5, wait=50)
    eventually(lambda: [w for w in waiting(api, name, 1) if w["since"] > 1.2], "a long wait")
    api.lock(name, "release", A)
    assert second.result(PATIENCE).status == 200


def test_a_newer_request_takes_over(api: Api, name: str) -> None:
    api.lock(name, "acquire", A)
    old = api.later(name, "acquire", B, wait=50)
    (before,) = waiting(api, name, 1)
    new = api.later(name, "acquire", B, wait=50)
    assert old.result(PATIENCE).status == 202
    (after,) = waiting(api, name, 1)
    assert before["fence"] == after["fence"]
    api.lock(name, "release", A)
    assert new.result(PATIENCE).status == 200


def test_a_release_ends_the_wait(api: Api, name: str) -> None:
    api.lock(name, "acquire", A)
    second = api.later(name, "acquire", B, wait=50)
    waiting(api, name, 1)
    assert api.lock(name, "release", B).status == 200
    assert second.result(PATIENCE).status == 202
    assert api.show(name)["waiters"] == []


def test_a_client_that_is_gone_gives_up_its_place(api: Api, name: str) -> None:
    """Nobody renews its ticket. Also if it was admitted in between, the others go on soon."""
    api.lock(name, "acquire", A)
    body = json.dumps({"ttl": 1.0, "wait": 50}).encode()
    head = f"POST /v1/locks/{name}/acquire HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
    head += f"{KEY}: {B}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((HOST, api.port)) as client:
        client.sendall(head.encode() + body)
        waiting(api, name, 1)
    third = api.later(name, "acquire", C, wait=50)
    waiting(api, name, 2)
    api.lock(name, "release", A)
    assert third.result(PATIENCE).status == 200


def test_an_answer_that_comes_after_the_ttl(api: Api, name: str) -> None:
    """The client's own clock decides: it confirms with a renewal, and does not work unprotected."""
    api.lock(name, "acquire", A)
    with TcpProxy(api.port, replies=lambda: lambda piece: 0) as proxy:
        far = Api(proxy.port)
        late = far.later(name, "acquire", B, ttl=0.5, wait=50)
        waiting(api, name, 1)
        proxy.delay(1.5)
        api.lock(name, "release", A)
        held = late.result(PATIENCE)
        proxy.heal()
        assert held.status == 200
        assert held.body["expires_in"] < 0.5  # true when it was sent
        confirmed = far.lock(name, "renew", B, ttl=0.5)
        assert (confirmed.status, confirmed.kind) == (410, "gone")
        far.close()


def test_a_replica_that_ends_sends_its_waiters_elsewhere(tmp_path: Path) -> None:
    with Replica(tmp_path / "replica", f"sqlite:///{tmp_path}/locks.db") as replica:
        api = Api(replica.port)
        api.lock("x", "acquire", A)
        second = api.later("x", "acquire", B, wait=50)
        waiting(api, "x", 1)
        replica.stop()
        told = second.result(PATIENCE)
        assert told.status == 202
        assert told.headers["Connection"] == "close"
        api.close()


# --- an engine that fails, in this process


@pytest.fixture
async def service() -> Service:
    return Service(Settings(engine="memory://failing"))


@pytest.fixture
async def client(service: Service) -> AsyncIterator[TestClient[Any, Any]]:
    async with TestClient(TestServer(service.app)) as client:
        yield client


class Away:
    """An engine whose `enter` fails after it has succeeded so often."""

    def __init__(self, service: Service, successes: int) -> None:
        self.engine = service.acts.engine
        self.enter = self.engine.enter
        self.left = successes

    async def __call__(self, *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise EngineError("away", outcome="not applied")
        return await self.enter(*args, **options)


@pytest.mark.parametrize(("successes", "status"), [(0, 503), (1, 504)])
async def test_not_applied_and_unknown(
    service: Service,
    client: TestClient[Any, Any],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    successes: int,
    status: int,
) -> None:
    """After the ticket has entered, a later failure must not say that nothing was applied."""
    assert (await client.post(f"/v1/locks/{name}/acquire", json={})).status == 200
    monkeypatch.setattr(service.acts.engine, "enter", Away(service, successes))
    failed = await client.post(f"/v1/locks/{name}/acquire", json={"wait": 50, "ttl": 0.2})
    told = await failed.json(content_type="application/problem+json")
    assert failed.status == told["status"] == status
    assert told["outcome"] == ("unknown" if successes else "not applied")


async def test_what_the_engine_can_not_give(
    service: Service, client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    engine = service.acts.engine
    weaker = engine.traits._replace(guarantee="efficiency", supports_sharing=False)
    monkeypatch.setattr(type(engine), "traits", weaker)
    for wait in (0, 1):
        body = {"require": "correctness", "wait": wait}
        assert (await client.post(f"/v1/locks/{name}/acquire", json=body)).status == 412
    assert (await client.post(f"/v1/locks/{name}/acquire", json={"read": True})).status == 422
    seen = await (await client.get(f"/v1/locks/{name}")).json()
    assert seen["holders"] == []
