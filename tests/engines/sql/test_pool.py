"""The pool: no connection is lost or counted twice, whatever is cancelled and whenever it is closed."""

import asyncio

import pytest

from fencelock.engines.failure import RequestFailed
from fencelock.engines.sql.database import Wire
from fencelock.engines.sql.pool import Pool
from fencelock.io.asyncio import AsyncioIO
from tests.waiting import within


class FakeWire(Wire):
    def __init__(self) -> None:
        self.broken = False
        self.cut = False
        self.closed = False

    async def call(self, request: object, timeout: float) -> list[str]:
        return []

    async def begin(self, request: object, timeout: float) -> None:
        raise NotImplementedError

    async def answered(self, timeout: float) -> bool:
        raise NotImplementedError

    def interrupt(self) -> None:
        raise NotImplementedError

    def is_cut(self) -> bool:
        return self.cut

    def hang_up(self) -> None:
        self.close()

    def close(self) -> None:
        self.broken = self.closed = True


class FakeServer:
    """Opens connections at a moment that the test chooses."""

    def __init__(self) -> None:
        self.wires: list[FakeWire] = []
        self.ready = asyncio.Event()
        self.ready.set()

    async def connect(self, timeout: float) -> FakeWire:
        await self.ready.wait()
        self.wires.append(FakeWire())
        return self.wires[-1]


@pytest.fixture
async def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
async def pool(server: FakeServer) -> Pool[FakeWire]:
    return Pool(server.connect, AsyncioIO(), 1)


async def waiting(pool: Pool[FakeWire], *, timeout: float = 5) -> "asyncio.Task[FakeWire]":
    """A caller that waits for the only connection."""
    task = asyncio.create_task(pool.take(timeout))
    await asyncio.sleep(0)
    assert len(pool._waiting) > 0
    return task


async def test_the_longest_waiting_caller_is_next(pool: Pool[FakeWire]) -> None:
    wire = await pool.take(5)
    first, second = await waiting(pool), await waiting(pool)
    pool.give(wire)
    assert await first is wire
    assert not second.done()
    pool.give(wire)
    assert await second is wire


async def test_a_cancelled_caller_passes_on_its_connection(
    pool: Pool[FakeWire],
) -> None:
    wire = await pool.take(5)
    first, second = await waiting(pool), await waiting(pool)
    pool.give(wire)  # to the first, which has not run since
    first.cancel()
    assert await within(second) is wire
    assert first.cancelled()


async def test_a_caller_cancelled_while_it_connects_lets_the_next_connect(
    pool: Pool[FakeWire], server: FakeServer
) -> None:
    server.ready.clear()
    first = asyncio.create_task(pool.take(5))
    await asyncio.sleep(0)
    second = await waiting(pool)
    first.cancel()
    server.ready.set()
    assert await within(second) is server.wires[0]
    assert pool._open == 1


async def test_all_were_busy(pool: Pool[FakeWire]) -> None:
    wire = await pool.take(5)
    with pytest.raises(RequestFailed, match="all 1 connections of this client were busy"):
        await pool.take(0.01)
    pool.give(wire)
    assert await pool.take(5) is wire


async def test_a_cut_connection_is_replaced(pool: Pool[FakeWire]) -> None:
    wire = await pool.take(5)
    pool.give(wire)
    wire.cut = True
    assert await pool.take(5) is not wire
    assert wire.closed
    assert pool._open == 1


async def test_closed_while_a_caller_waits(pool: Pool[FakeWire]) -> None:
    wire = await pool.take(5)
    one, cancelled = await waiting(pool), await waiting(pool)
    pool.close()
    cancelled.cancel()
    with pytest.raises(RequestFailed, match="the client was closed"):
        await within(one)
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    pool.give(wire)
    assert wire.closed
    assert pool._open == 0


async def test_closed_while_a_caller_connects(pool: Pool[FakeWire], server: FakeServer) -> None:
    server.ready.clear()
    one = asyncio.create_task(pool.take(5))
    await asyncio.sleep(0)
    pool.close()
    server.ready.set()
    with pytest.raises(RequestFailed, match="the client was closed"):
        await one
    assert server.wires[0].closed
    assert pool._open == 0


async def test_closed_when_a_caller_with_a_connection_is_cancelled(pool: Pool[FakeWire]) -> None:
    wire = await pool.take(5)
    one = await waiting(pool)
    pool.give(wire)
    one.cancel()
    pool.close()
    await asyncio.wait([one])
    assert wire.closed
    assert pool._open == 0
