"""What waiters hear: they miss nothing, make no watch twice, and leave none behind."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fencelock.core.ticket import Owner, Place, Standing, Ticket
from fencelock.engines.etcd import listener
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.engines.etcd import server_state
from tests.proxy import TcpProxy
from tests.servers import HOST
from tests.servers_etcd import EtcdCluster
from tests.waiting import soon, within

LIMIT = 30.0
Open = Callable[..., EtcdEngine]


@pytest.fixture
def opened(etcd_cluster: EtcdCluster) -> Iterator[Open]:
    with ExitStack() as running:

        def open(url: str = etcd_cluster.url) -> EtcdEngine:
            engine = open_engine(url, BlockingIO())
            assert isinstance(engine, EtcdEngine)
            running.callback(lambda: run(engine.close()))
            return engine

        yield open


def ticket(name: str, ttl: float = 300.0) -> Ticket:
    """A ticket with a long ttl: in a test it is never renewed."""
    return Ticket(name, new_id(), ttl, Owner("host", 1))


def enter(engine: EtcdEngine, one: Ticket) -> Place:
    return run(engine.enter(one, if_free=False, timeout=LIMIT)).place


def parked(engine: EtcdEngine, one: Ticket) -> asyncio.Task[Standing | None]:
    """Wait in a thread."""
    until = engine._io.now() + 4 * LIMIT
    return asyncio.create_task(asyncio.to_thread(lambda: run(engine.park(one, until))))


async def admitted(waiting: asyncio.Task[Standing | None]) -> None:
    standing = await within(waiting)
    assert standing is not None
    assert standing.place is Place.ADMITTED


def listens(engine: EtcdEngine, one: Ticket) -> bool:
    watcher = engine._tickets.entries[one.id].watcher
    return watcher is not None and not watcher.not_begun and not watcher.must_look


def leave(engine: EtcdEngine, one: Ticket) -> None:
    assert run(engine.leave(one, timeout=LIMIT))


async def test_a_release_before_the_watch_begins_is_not_missed(opened: Open) -> None:
    first, second = opened(), opened()
    name = f"early:{new_id()}"
    holder, waiter = ticket(name), ticket(name)
    assert enter(first, holder) is Place.ADMITTED
    assert enter(second, waiter) is Place.WAITING
    leave(first, holder)
    await admitted(parked(second, waiter))
    leave(second, waiter)


async def test_the_end_of_the_own_ticket_before_the_watch_begins_is_not_missed(
    opened: Open, etcd_cluster: EtcdCluster
) -> None:
    first, second = opened(), opened()
    name = f"gone:{new_id()}"
    holder, waiter = ticket(name), ticket(name)
    enter(first, holder)
    enter(second, waiter)
    key = server_state.tickets(etcd_cluster, name)[waiter.id]
    etcd_cluster.ctl("lease", "revoke", f"{server_state.lease_of(etcd_cluster, key):x}")
    assert await within(parked(second, waiter)) is None
    leave(first, holder)


@pytest.mark.parametrize("renewed", [False, True])
async def test_what_happens_to_other_names_wakes_no_waiter(opened: Open, renewed: bool) -> None:
    """The cluster has moved on since the waiter joined: it looks, finds nothing new, and goes on waiting."""
    first, second = opened(), opened()
    name = f"calm:{new_id()}"
    holder, waiter, other = ticket(name), ticket(name), ticket(name + ":other")
    enter(first, holder)
    enter(second, waiter)
    enter(first, other)
    if renewed:
        run(first.renew([holder], timeout=LIMIT))
    waiting = parked(second, waiter)
    await soon(lambda: listens(second, waiter), "the waiter to listen")
    watches = dict(second._listener._watches)
    leave(first, other)
    assert second._listener._watches == watches
    leave(first, holder)
    await admitted(waiting)
    leave(second, waiter)


async def test_contenders_that_take_turns_keep_their_watches(opened: Open) -> None:
    engines = [opened(), opened()]
    name = f"turns:{new_id()}"
    holder = ticket(name)
    enter(engines[0], holder)
    watches = []
    for turn in range(6):
        ahead, behind = engines[turn % 2], engines[1 - turn % 2]
        waiter = ticket(name)
        assert enter(behind, waiter) is Place.WAITING
        waiting = parked(behind, waiter)
        await soon(lambda: listens(behind, waiter), "the waiter to listen")  # noqa: B023 - at once
        watches.append(set(behind._listener._watches))
        leave(ahead, holder)
        await admitted(waiting)
        holder = waiter
    assert watches == watches[:2] * 3
    leave(engines[0], holder)


async def test_watches_that_no_ticket_needs_end(
    opened: Open, etcd_cluster: EtcdCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_MAX_SPARE", 3)
    first, second = opened(), opened()
    names = [f"needless:{new_id()}" for _ in range(4)]

    async def contend(name: str) -> None:
        holder, waiter = ticket(name), ticket(name)
        enter(first, holder)
        enter(second, waiter)
        waiting = parked(second, waiter)
        await soon(lambda: listens(second, waiter), "the waiter to listen")
        leave(first, holder)
        await within(waiting)
        leave(second, waiter)

    gate, last = ticket("gate:" + names[0]), ticket("gate:" + names[0])
    enter(first, gate)
    enter(second, last)
    waiting = parked(second, last)  # as long as it does, the stream stays
    await soon(lambda: listens(second, last), "the waiter to listen")
    for name in names:
        await contend(name)
    assert len(second._listener._watches) == 2 + 3, "so many stay"
    for _ in range(3):
        for name in names:
            alone = ticket(name)
            enter(first, alone)
            leave(first, alone)
            enter(second, alone)
            leave(second, alone)
    await soon(
        lambda: len(second._listener._watches) == 2, "all but those of the one that waits to end"
    )
    await soon(lambda: server_state.watchers(etcd_cluster) == 2, "etcd to know it")
    leave(first, gate)
    await within(waiting)
    leave(second, last)


async def test_what_happens_while_a_stream_is_broken_is_not_missed(
    opened: Open, etcd_cluster: EtcdCluster
) -> None:
    """Even if etcd has thrown away its history."""
    first, second = opened(), opened()
    name = f"broken:{new_id()}"
    holder, waiter = ticket(name), ticket(name)
    enter(first, holder)
    enter(second, waiter)
    waiting = parked(second, waiter)
    await soon(lambda: listens(second, waiter), "the waiter to listen")
    second._listener.pause()  # as for a fork: so there is no stream while this happens
    leave(first, holder)
    revision = etcd_cluster.ctl("get", "nothing")["header"]["revision"]
    etcd_cluster.ctl("compact", str(revision))
    second._listener.resume()
    await admitted(waiting)
    leave(second, waiter)


async def test_a_stream_that_breaks_before_a_watch_begins(
    opened: Open, etcd_cluster: EtcdCluster, grpc_proxy: Callable[[int], TcpProxy]
) -> None:
    proxy = grpc_proxy(etcd_cluster.members[0].port)
    elsewhere = etcd_cluster.members[1].address
    first, second = opened(), opened(f"etcd://{HOST}:{proxy.port},{elsewhere}")
    name = f"unborn:{new_id()}"
    holder, waiter = ticket(name), ticket(name)
    enter(first, holder)
    enter(second, waiter)
    proxy.mute()
    waiting = parked(second, waiter)
    await soon(
        lambda: server_state.watchers(etcd_cluster) == 2, "the watches that it does not hear of"
    )
    assert not listens(second, waiter)
    leave(first, holder)
    proxy.refuse()
    await admitted(waiting)
    leave(second, waiter)
