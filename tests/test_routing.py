"""Several engines as one: each name belongs to one engine, and nothing is lost between them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import fencelock
from tests.servers import RedisFactory
from tests.waiting import eventually, soon


def memory() -> str:
    return f"memory://{uuid4().hex}"


def test_each_name_has_its_engine() -> None:
    orders, rest = memory(), memory()
    with (
        fencelock.Client({"order:*": orders, "*": rest}) as client,
        fencelock.Client(orders) as first,
        fencelock.Client(rest) as second,
    ):
        one, two = client.lock("order:42").acquire(), client.lock("report").acquire()
        assert first.names() == ["order:42"]
        assert second.names() == ["report"]
        assert client.names() == ["order:42", "report"]
        assert first.lock("order:42").try_acquire() is None
        assert client.inspect("order:42").holders[0].fence == one.fence
        assert client.break_lock("report")
        assert second.names() == []
        one.renew()
        with pytest.raises(fencelock.LeaseLost):
            two.renew()


def test_all_engines_must_answer_a_ping() -> None:
    with fencelock.Client({"near:*": memory(), "*": memory()}) as client:
        assert client.ping() > 0
    client = fencelock.Client({"near:*": memory(), "*": "redis://127.0.0.1:1"})
    with client, pytest.raises(fencelock.EngineError):
        client.ping()


def test_the_hash_chooses_and_few_names_move() -> None:
    urls = [memory() for _ in range(3)]
    with fencelock.Client({"*": urls}) as three, fencelock.Client({"*": urls[:2]}) as two:
        names = [f"order:{number}" for number in range(300)]
        parts = [three._context.engine.part_of(name) for name in names]  # type: ignore[attr-defined]
        assert all(count > 60 for count in Counter(parts).values())
        places = [three._context.engine._engines.index(part) for part in parts]  # type: ignore[attr-defined]
        kept = [
            two._context.engine._engines.index(two._context.engine.part_of(name)) == place  # type: ignore[attr-defined]
            for name, place in zip(names, places, strict=True)
            if place < 2
        ]
        assert all(kept), "only the names of the third one move"


async def test_several_across_engines(tmp_path: Path, redis_url: str) -> None:
    routes = {"a*": f"sqlite:///{tmp_path}/locks.db", "*": redis_url}
    name = uuid4().hex
    async with fencelock.AsyncClient(routes, ttl=4) as client:
        leases = await client.lock_all([f"a{name}", f"b{name}"]).acquire()
        first = [lease._claim.deadline for lease in leases.values()]

        def renewed() -> bool:
            now = [lease._claim.deadline for lease in leases.values()]
            return all(new > old for new, old in zip(now, first, strict=True))

        await soon(renewed, "both to be renewed")
        assert await client.lock(f"b{name}").try_acquire() is None
        deadlines = [lease._claim.deadline for lease in leases.values()]
        for lease in leases.values():
            await lease.renew()
        assert [lease._claim.deadline for lease in leases.values()] > deadlines
        await leases.release()
        assert await client.names(f"*{name}") == []


def test_a_part_that_is_away_does_not_take_the_others_along(
    redis_server: RedisFactory, tmp_path: Path
) -> None:
    server = redis_server()
    routes = {"far:*": server.url, "*": f"sqlite:///{tmp_path}/locks.db"}
    with fencelock.Client(routes, ttl=3) as client:
        far, near = client.lock("far:1").acquire(), client.lock("near").acquire()
        server.freeze()
        eventually(lambda: far.state is fencelock.LeaseState.SUSPENDED, "the suspension")
        first = near._claim.deadline
        eventually(lambda: near._claim.deadline > first, "the other one's renewal")
        assert near.state is fencelock.LeaseState.HELD
        with pytest.raises(fencelock.EngineError):
            client.inspect("far:1")
        server.thaw()


def test_correctness_rests_on_what_all_of_them_need(tmp_path: Path) -> None:
    places = [f"sqlite:///{tmp_path}/{n}.db" for n in range(2)]
    client = fencelock.Client({"x*": "postgresql://localhost/app", "*": places})
    assert client.traits.guarantee == "correctness"
    assert client.traits.condition.count("one machine") == 1
    assert client.traits.condition.count("synchronous standby") == 1


def test_what_all_can_do_is_what_is_promised(tmp_path: Path) -> None:
    routes: Any = {"x*": "redlock://a,b,c", "*": f"sqlite:///{tmp_path}/locks.db"}
    client = fencelock.Client(routes)
    assert client.traits.guarantee == "efficiency"
    assert not client.traits.fifo
    assert not client.traits.condition
    with pytest.raises(fencelock.UnsafeEngine):
        fencelock.Client(routes, purpose="correctness")
    with pytest.raises(fencelock.Unsupported):
        client.rwlock("x")


@pytest.mark.parametrize(
    ("routes", "error", "told"),
    [
        ({}, ValueError, 'last route must be "\\*"'),
        ({"*": "memory://", "a*": "memory://"}, ValueError, "last route"),
        ({"*": []}, ValueError, "has no URL"),
        (["memory://"], TypeError, "a dict of patterns"),
        (
            {"a": "postgresql+advisory://localhost/x", "*": "memory://"},
            ValueError,
            "with a ttl and engines without",
        ),
    ],
)
def test_routes_that_can_not_be_right(routes: Any, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        fencelock.Client(routes)
