"""The engine goes away and comes back: leases are suspended, then lost at the deadline, never later."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

import fencelock
from fencelock.io import clock
from tests.conformance.cells import FACES, Cell
from tests.servers import RedisFactory, RedisServer
from tests.servers_etcd import EtcdCluster
from tests.servers_mysql import MysqlServer
from tests.servers_postgresql import PostgresqlServer
from tests.servers_redlock import RedlockSet
from tests.servers_service import Replica
from tests.servers_zookeeper import Ensemble
from tests.waiting import PATIENCE, soon, within

Outage = Callable[[], AbstractContextManager[None]]


ENGINES = ["sqlite", "redis", "redlock", "etcd", "zookeeper", "postgresql", "mysql", "http"]
PLACES = [(engine, face) for engine in ("sqlite", "redis", "redlock", "http") for face in FACES]
# These servers take long to start, and each of these tests starts one. So they run either sync or async.
PLACES += [("etcd", "async"), ("zookeeper", "sync"), ("postgresql", "async"), ("mysql", "sync")]


@pytest.fixture(params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    engine, face = request.param
    return engine, face


@pytest.fixture
def fragile(
    place: tuple[str, str], request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[str, Outage]:
    """An engine's URL, and a way to take the engine away for a while."""
    if place[0] == "sqlite":
        path = tmp_path / "locks.db"

        @contextmanager
        def busy() -> Any:
            hog = apsw.Connection(str(path))  # another process in the middle of a transaction
            hog.execute("BEGIN IMMEDIATE")
            yield
            hog.execute("ROLLBACK")
            hog.close()

        return f"sqlite:///{path}", busy
    if place[0] == "etcd":
        cluster: EtcdCluster = request.getfixturevalue("etcd_private")

        @contextmanager
        def no_majority() -> Any:
            with cluster.frozen(cluster.members[0]), cluster.frozen(cluster.members[1]):
                yield

        return cluster.url, no_majority
    if place[0] == "redlock":
        nodes: RedlockSet = request.getfixturevalue("redlock_private")

        @contextmanager
        def most_frozen() -> Any:
            for node in nodes.nodes[:3]:
                node.freeze()
            yield
            for node in nodes.nodes[:3]:
                node.thaw()

        return nodes.url, most_frozen
    if place[0] == "zookeeper":
        ensemble: Ensemble = request.getfixturevalue("private_zookeeper")

        @contextmanager
        def all_frozen() -> Any:
            for node in ensemble.nodes:
                node.freeze()
            yield
            for node in ensemble.nodes:
                node.thaw()

        return f"{ensemble.url}?session=60", all_frozen
    server: RedisServer | PostgresqlServer | MysqlServer | Replica
    if place[0] == "http":
        server = request.getfixturevalue("private_replica")
    elif place[0] in ("postgresql", "mysql"):
        server = request.getfixturevalue(f"{place[0]}_server")()
    else:
        start: RedisFactory = request.getfixturevalue("redis_server")
        server = start()

    @contextmanager
    def frozen() -> Any:
        server.freeze()
        yield
        server.thaw()

    return server.url, frozen


@pytest.fixture
async def cell(place: tuple[str, str], fragile: tuple[str, Outage]) -> AsyncIterator[Cell]:
    cell = Cell("fragile", place[1], fragile[0])
    yield cell
    await cell.close()


async def test_engine_gone_for_long(cell: Cell, fragile: tuple[str, Outage]) -> None:
    gone = fragile[1]
    client = cell.client()
    seen_at: list[float] = []
    holder = cell.actor()
    lease = await holder.do(
        lambda: client.lock(
            cell.name, ttl=6, on_lost=lambda _: seen_at.append(clock.now())
        ).acquire()
    )
    with gone():
        await soon(lambda: lease.state is fencelock.LeaseState.SUSPENDED, "the suspension")
        lease.check()  # still ours: the deadline has not passed
        deadline = lease._claim.deadline
        assert await holder.do(lambda: lease.lost.wait(PATIENCE))
        noticed = clock.now()
        assert lease._claim.deadline == deadline, "nobody extended it meanwhile"
        assert noticed >= deadline
        assert seen_at
        assert seen_at[0] - deadline < 1.8, "the keeper was busy with something else"
        with pytest.raises(fencelock.LeaseLost):
            lease.check()
    await soon(lambda: _free(cell, client), "the engine to be usable and the lock free")


async def test_engine_back_in_time(cell: Cell, fragile: tuple[str, Outage]) -> None:
    gone = fragile[1]
    client = cell.client()
    lease = await cell.run(lambda: client.lock(cell.name, ttl=9).acquire())
    with gone():
        await soon(lambda: lease.state is fencelock.LeaseState.SUSPENDED, "the suspension")
    await soon(lambda: lease.state is fencelock.LeaseState.HELD, "the renewal")
    lease.check()
    await cell.run(lease.release)


async def test_asking_an_engine_that_is_gone(cell: Cell, fragile: tuple[str, Outage]) -> None:
    gone = fragile[1]
    client = cell.client()
    await cell.run(lambda: client.names())  # connected, and everything created
    acts = (
        lambda: client.lock(cell.name).acquire(),
        lambda: client.lock(cell.name).acquire(timeout=0.3),
        lambda: client.lock(cell.name).try_acquire(),
        lambda: client.inspect(cell.name),
    )

    async def in_vain(act: Callable[[], Any]) -> None:
        start = time.monotonic()
        with pytest.raises(fencelock.EngineError) as caught:
            await asyncio.wait_for(cell.run(act), 30)
        assert time.monotonic() - start < 25, "reported, not hung"
        assert caught.value.outcome in ("unknown", "not applied")
        assert caught.value.__cause__ is not None
        assert not isinstance(caught.value, TimeoutError), "not to be taken for a held lock"

    with gone():
        await asyncio.gather(*map(in_vain, acts))
    await soon(lambda: _free(cell, client), "nothing to be left behind")


async def test_waiting_through_an_outage(cell: Cell, fragile: tuple[str, Outage]) -> None:
    gone = fragile[1]
    client, other = cell.client(), cell.client()
    lease = await cell.run(lambda: other.lock(cell.name, ttl=60).acquire())
    waiter = cell.actor().start(lambda: client.lock(cell.name, ttl=12).acquire())

    async def joined() -> bool:
        return bool((await cell.run(lambda: other.inspect(cell.name))).waiting)

    await soon(joined, "the waiter")
    with gone():
        await asyncio.sleep(0.5)  # some of its requests fail meanwhile
    await cell.run(lease.release)
    assert (await within(waiter)).fence > lease.fence


@contextmanager
def many_signals() -> Iterator[None]:
    """Interrupt every wait of this thread with a signal, twenty times a second. Fails after 30 s."""
    hung = time.monotonic() + 30

    def handle(*_: object) -> None:
        assert time.monotonic() < hung, "it hung"

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "place", [(engine, "sync") for engine in ENGINES], ids="-".join, indirect=True
)
def test_a_program_that_handles_signals_all_the_time(fragile: tuple[str, Outage]) -> None:
    """After each signal Python waits again: only for the time that is left, not for the whole time."""
    url, gone = fragile
    with fencelock.Client(url) as client:
        client.names()  # connected, and everything created
        with gone(), many_signals(), pytest.raises(fencelock.EngineError):
            client.lock("x").acquire(timeout=0.3)


async def _free(cell: Cell, client: Any) -> bool:
    """Whether the lock is free: no holder and no waiter."""
    try:
        seen = await cell.run(lambda: client.inspect(cell.name))
    except fencelock.EngineError:
        return False
    return not seen.holders and not seen.waiting
