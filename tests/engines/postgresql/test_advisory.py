"""postgresql+advisory://: a session is a ticket. What its traits declare, and what it does instead."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.core.ticket import Departure, Owner, Place, Ticket
from holdfast.engines.postgresql import advisory
from holdfast.io.blocking import run
from holdfast.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, queued
from tests.engines.postgresql.seeing import connections
from tests.servers_postgresql import PgBouncer, PostgresqlServer
from tests.waiting import soon


@pytest.fixture
def cell(server: PostgresqlServer, open_cell: OpenCell) -> Cell:
    return open_cell(advisory_url(server.url))


def advisory_url(url: str) -> str:
    return url.replace("postgresql://", "postgresql+advisory://")


def ours(server: PostgresqlServer, *, granted: bool) -> list[int]:
    """The backends that have an advisory lock, or wait for one."""
    rows = server.execute(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted = %s", granted
    )
    return [pid for (pid,) in rows]


async def test_what_it_declares(cell: Cell) -> None:
    traits = cell.client().traits
    assert traits.guarantee == "efficiency"
    assert not traits.expiring
    assert not traits.numbered
    with pytest.raises(holdfast.UnsafeEngine):
        cell.client(purpose="correctness")


async def test_a_killed_holder_is_followed_at_once(cell: Cell) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name, ttl=60)["fence"]
        heir = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
        await queued(cell, client, 1)
        holder.kill()
        lease = await asyncio.wait_for(heir, 10)
    assert lease.fence > fence
    assert lease.abandoned
    await cell.run(lease.release)
    assert not (await cell.run(client.lock(cell.name).acquire)).abandoned


async def test_a_stopped_holder_keeps_the_lock(cell: Cell) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name, ttl=0.5)["fence"]
        holder.stop()
        with pytest.raises(holdfast.LockTimeout):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=1.5))
        (seen,) = (await cell.run(lambda: client.inspect(cell.name))).holders
        assert (seen.fence, seen.expires) == (fence, float("inf"))


async def test_a_session_that_is_ended_is_a_lost_lease(
    cell: Cell, server: PostgresqlServer
) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=1.5).acquire)
    (pid,) = ours(server, granted=True)
    server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)
    assert await cell.run(lambda: lease.lost.wait(10))
    with pytest.raises(holdfast.LeaseLost):
        lease.check()
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert again.abandoned


async def test_a_waiters_session_is_ended(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=60).acquire)
    waiter = cell.actor().start(client.lock(cell.name, ttl=60).acquire)
    (pid,) = await soon(lambda: ours(server, granted=False), "the waiter")
    server.execute("SELECT pg_terminate_backend(%s, 5000)", pid)
    await soon(lambda: ours(server, granted=False) not in ([], [pid]), "the waiter to come back")
    await cell.run(lease.release)
    assert (await asyncio.wait_for(waiter, 10)).fence > lease.fence


async def test_who_gives_up_leaves_no_waiter_behind(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    for _ in range(3):
        with pytest.raises(holdfast.LockTimeout):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=1))
    await soon(lambda: ours(server, granted=False) == [], "nobody to wait in the server")
    ((rows,),) = server.execute("SELECT count(*) FROM holdfast.sessions")
    assert rows == 1
    await cell.run(lease.release)
    assert ours(server, granted=True) == []


async def test_names_with_one_hash_are_found_out(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advisory, "key_of", lambda _: "42")
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with pytest.raises(holdfast.EngineError, match="have the same 64-bit hash") as caught:
        await cell.run(client.lock(cell.name + ":other").acquire)
    assert caught.value.outcome == "not applied"
    assert "rename one of the two" in str(caught.value)


def test_names_are_hashed_to_64_bits() -> None:
    keys = {int(advisory.key_of(f"name {n}")) for n in range(10_000)}
    assert len(keys) == 10_000
    assert min(keys) < -(2**62) < 2**62 < max(keys) < 2**63


async def test_how_a_holder_departs(cell: Cell) -> None:
    engine = cell.client()._engine

    def act(coroutine: Any) -> Any:
        return cell.run(lambda: run(coroutine) if cell.face == "sync" else coroutine)

    async def enter() -> tuple[Ticket, Any]:
        one = Ticket(cell.name, new_id(), 30.0, Owner("host", 1))
        return one, await act(engine.enter(one, if_free=True, timeout=2))

    for departure, abandoned in (
        (Departure.RELEASED, False),
        (Departure.LOST, True),
        (Departure.WITHDRAWN, True),
        (Departure.RELEASED, False),
        (Departure.WITHDRAWN, False),
    ):
        one, standing = await enter()
        assert standing.place is Place.ADMITTED
        assert await act(engine.leave(one, timeout=2, departure=departure))
        assert not await act(engine.leave(one, timeout=2, departure=departure))
        assert (await act(engine.inspect(cell.name, limit=0, timeout=2))).abandoned is abandoned


async def test_sessions_are_used_again(cell: Cell, server: PostgresqlServer) -> None:
    client = cell.client()
    for _ in range(10):
        await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    assert connections(server) == 1


async def test_a_restart_frees_everything(
    own_server: PostgresqlServer, open_cell: OpenCell
) -> None:
    cell = open_cell(advisory_url(own_server.url))
    client = cell.client()
    lease = await cell.run(client.lock(cell.name, ttl=1.5).acquire)
    own_server.stop()
    own_server.start()
    again = await cell.run(partial(client.lock(cell.name).acquire, timeout=10))
    assert again.fence > lease.fence
    assert again.abandoned
    assert await cell.run(lambda: lease.lost.wait(10))


async def test_not_behind_a_pooler(
    server: PostgresqlServer, open_cell: OpenCell, tmp_path: Path
) -> None:
    with PgBouncer(tmp_path / "pgbouncer", server) as pooler:
        cell = open_cell(advisory_url(pooler.url))
        client = cell.client()
        with pytest.raises(holdfast.Unsupported, match="session locks need a session"):
            await cell.run(client.lock(cell.name).acquire)
