"""postgresql+advisory:// and mysql+getlock://: each ticket is a session."""

import subprocess
import sys
from functools import partial
from typing import Any

import pytest

import fencelock
from fencelock.core.ticket import Departure, Owner, Place, Ticket
from fencelock.engines.mysql import requests as mysql_requests
from fencelock.engines.postgresql import requests as postgresql_requests
from fencelock.primitives.waiting import new_id
from tests.child import Child
from tests.conformance.cells import Cell, OpenCell, act, queued
from tests.engines.sql.admins import Admin
from tests.waiting import PATIENCE, soon, within


async def test_what_it_declares(cell: Cell) -> None:
    traits = cell.client().traits
    assert traits.guarantee == "efficiency"
    assert not traits.leases_expire
    assert traits.heartbeat == 1
    assert not traits.fenced_while_waiting
    with pytest.raises(fencelock.UnsafeEngine):
        cell.client(purpose="correctness")


async def test_a_killed_holder_is_followed_at_once(cell: Cell) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name)["fence"]
        heir = cell.actor().start(client.lock(cell.name).acquire)
        await queued(cell, client, 1)
        holder.kill()
        lease = await within(heir)
    assert lease.fence > fence
    assert lease.abandoned
    await cell.run(lease.release)
    assert not (await cell.run(client.lock(cell.name).acquire)).abandoned


async def test_a_stopped_holder_keeps_the_lock(cell: Cell) -> None:
    client = cell.client()
    with Child(cell.face, cell.url) as holder:
        fence = holder.call("acquire", name=cell.name)["fence"]
        holder.stop()
        with pytest.raises(fencelock.LockTimeout):  # after more than three heartbeats
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=4))
        (seen,) = (await cell.run(lambda: client.inspect(cell.name))).holders
        assert (seen.fence, seen.expires_in) == (fence, float("inf"))


async def test_a_session_that_is_ended_is_a_lost_lease(cell: Cell, admin: Admin) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    (session,) = admin.holding()
    admin.end(session)
    assert await cell.run(lambda: lease.lost.wait(PATIENCE))
    with pytest.raises(fencelock.LeaseLost):
        lease.check()
    again = await cell.run(client.lock(cell.name).acquire)
    assert again.fence > lease.fence
    assert again.abandoned


async def test_a_waiters_session_is_ended(cell: Cell, admin: Admin) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    (session,) = await soon(admin.waiting, "the waiter")
    admin.end(session)
    await soon(lambda: admin.waiting() not in ([], [session]), "the waiter to come back")
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


async def test_a_waiter_that_gives_up_leaves_nothing_behind(cell: Cell, admin: Admin) -> None:
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    for _ in range(3):
        with pytest.raises(fencelock.LockTimeout):
            await cell.run(lambda: client.lock(cell.name).acquire(timeout=1))
    await soon(lambda: admin.waiting() == [], "no session to wait in the server")
    assert admin.rows() == 1
    await cell.run(lease.release)
    assert admin.holding() == []


async def test_a_release_that_fails_leaves_no_lock_in_a_session(cell: Cell, admin: Admin) -> None:
    """The next ticket must not get a session that still has the lock."""
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    with admin.failing_releases():
        await cell.run(lease.release)  # it ends the session instead
    await soon(lambda: admin.holding() == [], "the lock to be free")
    again = await cell.run(partial(client.lock(cell.name).acquire, timeout=5))
    assert again.fence > lease.fence


async def test_names_with_the_same_hash_are_refused(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_requests, "key_of", lambda *_: "42")
    monkeypatch.setattr(mysql_requests, "hash_of", lambda *_: "42")
    client = cell.client()
    await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    with pytest.raises(
        fencelock.EngineError, match=r"have the same 64-bit hash|another name has the same hash"
    ) as caught:
        await cell.run(client.lock(cell.name + ":other").acquire)
    assert caught.value.outcome == "not applied"
    assert "rename one of the two" in str(caught.value)


def test_names_are_hashed() -> None:
    keys = {int(postgresql_requests.key_of("fencelock", f"name {n}")) for n in range(10_000)}
    assert len(keys) == 10_000
    assert min(keys) < -(2**62) < 2**62 < max(keys) < 2**63
    assert int(postgresql_requests.key_of("another", "name 1")) not in keys, "schemas keep apart"
    hashes = {mysql_requests.hash_of("database fencelock", f"name {n}") for n in range(10_000)}
    assert len(hashes) == 10_000
    assert all(len(hash) == 32 and hash == hash.lower() for hash in hashes)
    assert mysql_requests.hash_of("another fencelock", "name 1") not in hashes, (
        "databases keep apart"
    )


async def test_how_a_holder_departs(cell: Cell) -> None:
    engine = cell.client()._context.engine

    async def enter() -> tuple[Ticket, Any]:
        one = Ticket(cell.name, new_id(), 30.0, Owner("host", 1))
        return one, await act(cell, engine.enter(one, if_free=True, timeout=30))

    for departure, abandoned in (
        (Departure.RELEASED, False),
        (Departure.LOST, True),
        (Departure.WITHDRAWN, True),
        (Departure.RELEASED, False),
        (Departure.WITHDRAWN, False),
    ):
        one, standing = await enter()
        assert standing.place is Place.ADMITTED
        assert await act(cell, engine.leave(one, timeout=2, departure=departure))
        assert not await act(cell, engine.leave(one, timeout=2, departure=departure))
        seen = await act(cell, engine.inspect(cell.name, limit=0, timeout=30))
        assert seen.abandoned is abandoned


async def test_sessions_are_used_again(cell: Cell, admin: Admin) -> None:
    client = cell.client()
    for _ in range(10):
        await cell.run((await cell.run(client.lock(cell.name).acquire)).release)
    assert admin.connections() <= 2, "one, and one for a heartbeat if it took so long"


async def test_sessions_are_counted_right(cell: Cell, admin: Admin) -> None:
    """However they end. A pool that counts wrong opens too many connections, or no more at all."""
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    waiter = cell.actor().start(client.lock(cell.name).acquire)
    (session,) = await soon(admin.waiting, "the waiter")
    admin.end(session)
    await soon(lambda: admin.waiting() not in ([], [session]), "the waiter to come back")
    with pytest.raises(fencelock.LockTimeout):
        await cell.run(lambda: client.lock(cell.name).acquire(timeout=2))
    await cell.run(lease.release)
    heir = await within(waiter)
    (session,) = admin.holding()
    admin.end(session)
    assert await cell.run(lambda: heir.lost.wait(PATIENCE))
    pool = client._context.engine._pool
    await soon(lambda: not client._context.sweeper._doomed, "the lost ticket to be taken out")
    await soon(lambda: pool._open == len(pool._idle), "every connection to be accounted for")


async def test_closed_while_a_ticket_joins(
    cell: Cell, admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server granted the lock, but the client is closed by then."""
    engine = cell.client()._context.engine
    sent = engine._ask_in

    async def close_then(*request: Any) -> Any:
        answer = await sent(*request)
        await engine.close()
        return answer

    monkeypatch.setattr(engine, "_ask_in", close_then)
    one = Ticket(cell.name, new_id(), 30.0, Owner("host", 1))
    with pytest.raises(fencelock.EngineError, match="the client was closed"):
        await act(cell, engine.enter(one, if_free=True, timeout=30))
    await soon(lambda: admin.holding() == [], "the lock to be free")
    await soon(lambda: admin.connections() == 0, "the session to end")


async def test_a_restart_frees_everything(own_admin: Admin, open_cell: OpenCell) -> None:
    cell = open_cell(own_admin.url)
    client = cell.client()
    lease = await cell.run(client.lock(cell.name).acquire)
    own_admin.server.stop()
    own_admin.server.start()
    again = await cell.run(partial(client.lock(cell.name).acquire, timeout=10))
    assert again.fence > lease.fence
    assert again.abandoned
    assert await cell.run(lambda: lease.lost.wait(PATIENCE))


def test_the_command_line_needs_no_ttl(admin: Admin) -> None:
    """The command's time to end is a part of three heartbeats, not of the default ttl."""
    words = ["run", "x", "--url", admin.url, "--", "sh", "-c", "sleep 1; echo done"]
    ended = subprocess.run(
        [sys.executable, "-m", "fencelock", *words], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (0, "done\n"), ended.stderr


@pytest.mark.parametrize("scheme", ["postgresql+advisory", "mysql+getlock"])
@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "0.01", "3601"])
def test_heartbeats_that_make_no_sense(scheme: str, seconds: str) -> None:
    with pytest.raises(ValueError, match="option heartbeat must be"):
        fencelock.Client(f"{scheme}://localhost/db?heartbeat={seconds}")


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_lease_rows_have_no_heartbeat(scheme: str) -> None:
    with pytest.raises(ValueError, match="unknown option 'heartbeat'"):
        fencelock.Client(f"{scheme}://localhost/db?heartbeat=5")
