"""`lock(…, guard=…)`: older holders are kept out of the storage before the body runs."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from fencelock import (
    AsyncClient,
    Client,
    Lease,
    LeaseLost,
    LeaseState,
    StaleFence,
    Unsupported,
)
from fencelock.guards import AsyncFencedFile, AsyncSqlGuard, FencedFile, RedisGuard, SqlGuard
from fencelock.guards.objects import ObjectGuard, S3Store
from tests.guards.lease_likes import LeaseLike
from tests.waiting import eventually, soon

FUTURE = LeaseLike("x", 2**62, "one whose fence is above all that a lock gives out")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def client(url: str) -> Iterator[Client]:
    with Client(url) as client:
        yield client


@pytest.fixture
async def async_client(url: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(url) as client:
        yield client


@pytest.fixture
def file(tmp_path: Path) -> FencedFile:
    return FencedFile(tmp_path / "report.txt")


def test_the_fence_is_raised_before_the_body(client: Client, file: FencedFile) -> None:
    lock = client.lock("x", guard=file)
    with lock as lease:
        assert file.newest() == lease.fence
        file.write(b"good", lease)
    lease = lock.acquire()
    assert file.newest() == lease.fence
    lease.release()
    tried = lock.try_acquire()
    assert tried is not None
    assert file.newest() == tried.fence
    assert client.lock("x", guard=file).try_acquire() is None
    tried.release()

    @client.locked("x", guard=file)
    def work(lease: Lease) -> int:
        return lease.fence

    assert work() == file.newest()


async def test_the_same_in_asyncio(async_client: AsyncClient, tmp_path: Path) -> None:
    file = AsyncFencedFile(tmp_path / "report.txt")
    lock = async_client.lock("x", guard=file)
    async with lock as lease:
        assert await file.newest() == lease.fence
        await file.write(b"good", lease)
    tried = await lock.try_acquire()
    assert tried is not None
    assert await file.newest() == tried.fence
    assert await file.read() == b"good"
    await tried.release()


class Crowded:
    """A storage that has seen a newer one, and somebody who joins the queue at that very moment."""

    def __init__(self, client: Client, other: Client) -> None:
        self._client, self._other = client, other
        self.leases: list[Any] = []

    def raise_fence(self, lease: Any) -> None:
        if not self.leases:
            threading.Thread(target=self._take, daemon=True).start()
            eventually(lambda: self._client.inspect("x").waiting, "the other one")
        raise StaleFence(lease.name, given=lease.fence, newest=lease.fence + 1)

    def _take(self) -> None:
        self.leases.append(self._other.lock("x").acquire())


def test_who_does_not_wait_does_not_wait_for_the_second_turn_either(
    client: Client, url: str
) -> None:
    with Client(url) as other:
        guard = Crowded(client, other)
        assert client.lock("x", guard=guard).try_acquire() is None
        eventually(lambda: guard.leases, "the other one's turn")
        guard.leases[0].release()


class AlwaysAhead:
    """A storage that has always seen a newer one, also when the lock was taken again above that."""

    def raise_fence(self, lease: Any) -> None:
        raise StaleFence(lease.name, given=lease.fence, newest=lease.fence + 1)


class AsyncAlwaysAhead:
    async def raise_fence(self, lease: Any) -> None:
        raise StaleFence(lease.name, given=lease.fence, newest=lease.fence + 1)


def test_who_is_stale_all_the_same_does_not_get_it(client: Client) -> None:
    lock = client.lock("x", guard=AlwaysAhead())
    acts: list[Callable[[], Any]] = [lock.acquire, lock.try_acquire, lock.__enter__]
    for act in acts:
        with pytest.raises(StaleFence):
            eventually(act, "a free lock")  # the one before may not have left yet
    eventually(lambda: client.names() == [], "the lock to be free again")


async def test_nor_in_asyncio(async_client: AsyncClient) -> None:
    lock = async_client.lock("x", guard=AsyncAlwaysAhead())
    acts: list[Callable[[], Awaitable[Any]]] = [lock.acquire, lock.try_acquire, lock.__aenter__]
    for act in acts:
        with pytest.raises(StaleFence):
            await soon(act, "a free lock")
    await soon(lambda: _is_free(async_client), "the lock to be free again")


async def _is_free(client: AsyncClient) -> bool:
    return await client.names() == []


class Failing:
    """A storage that can't be reached."""

    def raise_fence(self, lease: Any) -> None:
        self.lease = lease
        raise OSError("no storage")


def test_a_storage_that_is_down(client: Client) -> None:
    guard = Failing()
    with pytest.raises(OSError, match="no storage"):
        client.lock("x", guard=guard).acquire()
    assert guard.lease.state is LeaseState.LOST
    eventually(lambda: client.names() == [], "the lock to be free again")


class Slow:
    """A storage that answers when the lease is over."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def raise_fence(self, lease: Any) -> None:
        self._client.break_lock(lease.name)
        with pytest.raises(LeaseLost):
            lease.renew()


def test_the_body_does_not_run_unheld(client: Client) -> None:
    with pytest.raises(LeaseLost):
        client.lock("x", guard=Slow(client)).__enter__()


class Hanging:
    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def raise_fence(self, lease: Any) -> None:
        self.asked.set()
        await asyncio.Event().wait()


async def test_cancelled_while_raising_the_fence(async_client: AsyncClient) -> None:
    guard = Hanging()
    task = asyncio.create_task(async_client.lock("x", guard=guard).acquire())
    await guard.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await soon(lambda: _is_free(async_client), "the lock to be free again")


class Counting:
    raised = 0

    def raise_fence(self, lease: Any) -> None:
        self.raised += 1


def test_once_for_a_lock_that_is_re_entered(client: Client) -> None:
    guard = Counting()
    lock = client.lock("x", reentrant=True, guard=guard)
    with lock, lock:
        assert guard.raised == 1
    with lock:
        assert guard.raised == 2


def test_a_sql_guard_that_opens_connections(client: Client, tmp_path: Path) -> None:
    @contextmanager
    def transaction() -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(tmp_path / "accounts.db")) as connection, connection:
            yield connection

    guard = SqlGuard(open=transaction)
    with transaction() as connection:
        guard.create(connection)
    with client.lock("x", guard=guard) as lease, transaction() as connection:
        assert guard.newest(connection, "x") == lease.fence
    with pytest.raises(Unsupported, match="open="):
        SqlGuard().raise_fence(FUTURE)


async def test_an_async_sql_guard_that_opens_connections(
    async_client: AsyncClient, postgresql_url: str
) -> None:
    engine = create_async_engine(postgresql_url.replace("://", "+psycopg://"))

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Any]:
        async with engine.begin() as connection:
            yield connection

    guard = AsyncSqlGuard(f"fences_{uuid4().hex}", open=transaction)
    async with engine.begin() as connection:
        await guard.create(connection)
    async with async_client.lock("x", guard=guard) as lease, engine.connect() as connection:
        assert await guard.newest(connection, "x") == lease.fence
    await engine.dispose()
    with pytest.raises(Unsupported, match="open="):
        await AsyncSqlGuard().raise_fence(FUTURE)


async def test_a_guard_that_cannot_act_by_itself(client: Client, async_client: AsyncClient) -> None:
    for guard in (SqlGuard(), RedisGuard(None), ObjectGuard(S3Store(None, "bucket"))):
        with pytest.raises(Unsupported, match="can't raise the fence by itself"):
            client.lock("x", guard=guard)
    with pytest.raises(Unsupported, match="can't raise the fence by itself"):
        async_client.lock("x", guard=AsyncSqlGuard())


async def test_a_guard_that_is_none(
    client: Client, async_client: AsyncClient, tmp_path: Path
) -> None:
    guard: Any = "fences"
    with pytest.raises(TypeError, match="raise_fence"):
        client.lock("x", guard=guard)
    guard = AsyncFencedFile(tmp_path / "report.txt")
    with pytest.raises(TypeError, match="AsyncFencedFile is not for Client: use the plain guard"):
        client.lock("x", guard=guard)
    guard = FencedFile(tmp_path / "report.txt")
    with pytest.raises(TypeError, match="FencedFile is not for AsyncClient: use the Async… guard"):
        async_client.lock("x", guard=guard)
