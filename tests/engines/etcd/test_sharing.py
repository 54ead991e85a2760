"""What sharing costs, what vanished holders leave behind, and late requests."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencelock.core.ticket import ALONE, READING, Owner, Place, Share, Standing, Ticket
from fencelock.engines.etcd import looking
from fencelock.engines.etcd.admission import Ahead, Blockers, QueueAhead, blockers
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.keys import Keys, Labels
from fencelock.engines.etcd.values import Record
from fencelock.engines.etcd.wire import created_at, txn
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster

LIMIT = 5.0
Join = Callable[..., Ticket]


@pytest.fixture
def engine(etcd_cluster: EtcdCluster) -> Iterator[EtcdEngine]:
    engine = open_engine(etcd_cluster.url, BlockingIO())
    assert isinstance(engine, EtcdEngine)
    yield engine
    run(engine.close())


@pytest.fixture
def join(engine: EtcdEngine) -> Join:
    name = f"sharing:{new_id()}"

    def join(share: Share = ALONE, ttl: float = 60.0) -> Ticket:
        ticket = Ticket(name, new_id(), ttl, Owner("host", 1), share)
        enter(engine, ticket)
        return ticket

    return join


def enter(engine: EtcdEngine, ticket: Ticket) -> Standing:
    return run(engine.enter(ticket, if_free=False, timeout=LIMIT))


def used(cluster: EtcdCluster, before: Counter[str]) -> Counter[str]:
    """The requests since then, but for those that keep leases alive."""
    calls = server_state.calls(cluster) - before
    calls.pop("LeaseKeepAlive", 0)
    return calls


def vanish(cluster: EtcdCluster, ticket: Ticket) -> None:
    """End the lease on which a ticket lives, as if its process had died. Tickets with another ttl live on."""
    key = server_state.tickets(cluster, ticket.name)[ticket.id]
    cluster.ctl("lease", "revoke", f"{server_state.lease_of(cluster, key):x}")


@pytest.mark.parametrize("share", [READING, Share.of(50)])
def test_to_share_is_one_transaction_however_many_there_are(
    etcd_cluster: EtcdCluster, engine: EtcdEngine, join: Join, share: Share
) -> None:
    join(share)
    for _ in range(20):
        join(share)
    before = server_state.calls(etcd_cluster)
    one = join(share)
    assert run(engine.leave(one, timeout=LIMIT))
    assert used(etcd_cluster, before) == {"Txn": 2}
    for _ in range(20):
        join()
    before = server_state.calls(etcd_cluster)
    waiting = join(share)
    assert run(engine.leave(waiting, timeout=LIMIT))
    assert used(etcd_cluster, before) == {"Txn": 2}
    assert used(etcd_cluster, before)["Range"] == 0, "nobody looked into the past"


def test_a_vanished_writer_leaves_the_name_abandoned_and_a_reader_does_not(
    etcd_cluster: EtcdCluster, engine: EtcdEngine, join: Join
) -> None:
    reader = join(READING, ttl=20)
    vanish(etcd_cluster, reader)
    assert server_state.of(etcd_cluster, reader.name) == []
    reader, writer, heir = join(READING, ttl=20), join(ttl=40), join()
    vanish(etcd_cluster, reader)
    standing = enter(engine, writer)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, False)
    vanish(etcd_cluster, writer)
    standing = enter(engine, heir)
    assert (standing.place, standing.abandoned) == (Place.ADMITTED, True)


def test_readers_after_a_writer_do_not_look_into_the_past_one_by_one(
    etcd_cluster: EtcdCluster, engine: EtcdEngine, join: Join
) -> None:
    writer, reader = join(), join(READING)
    run(engine.leave(writer, timeout=LIMIT))
    assert enter(engine, reader).place is Place.ADMITTED
    join(READING)
    before = server_state.calls(etcd_cluster)
    join(READING)
    assert used(etcd_cluster, before) == {"Txn": 1}


def test_a_renewal_that_comes_late_does_not_take_back_what_was_changed(
    engine: EtcdEngine, join: Join
) -> None:
    ticket = join()
    entry = engine._tickets.entries[ticket.id]
    assert entry.stored.lease is not None
    change = entry.change(ticket, 61.0, entry.stored.lease)
    late = looking.renewal(entry, entry.view, change)
    owner = ticket.owner._replace(label="changed")
    enter(engine, ticket._replace(share=READING, owner=owner))
    run(
        engine._cluster.txn(
            txn([created_at(entry.key, entry.view.fence)], late), engine._io.now() + LIMIT
        )
    )
    (holder,) = run(engine.inspect(ticket.name, limit=0, timeout=LIMIT)).holders
    assert (holder.share, holder.owner) == (READING, owner)


def test_a_converted_ticket_that_is_gone_joins_as_it_is_now(engine: EtcdEngine, join: Join) -> None:
    """Its old key would say that it joined to hold alone."""
    ticket = join()
    reading = ticket._replace(share=READING)
    fence = enter(engine, reading).fence
    assert run(engine.evict(ticket.name, timeout=LIMIT))
    writer = join()
    assert enter(engine, reading).place is Place.WAITING
    run(engine.leave(writer, timeout=LIMIT))
    assert enter(engine, reading).fence > fence
    assert enter(engine, join(READING)).place is Place.ADMITTED


def test_a_waiter_behind_more_holders_than_one_transaction_may_compare(
    engine: EtcdEngine, join: Join
) -> None:
    share = Share.of(130)
    holders = [join(share) for _ in range(130)]
    waiter = join(share)
    (standing,) = run(engine.renew([waiter], timeout=LIMIT))
    assert standing is not None
    assert standing.place is enter(engine, waiter).place is Place.WAITING
    entry = engine._tickets.entries[waiter.id]
    assert len(entry.view.ahead) == 130
    run(engine.park(waiter, engine._io.now() + 0.1))
    assert run(engine.leave(holders[0], timeout=LIMIT))
    assert enter(engine, waiter).place is Place.ADMITTED


def test_many_waiters_for_permits_are_renewed_together(engine: EtcdEngine) -> None:
    """Each in a queue of its own, behind several holders."""
    share, waiters = Share.of(30), []
    for _ in range(3):
        name = f"permits:{new_id()}"
        queue = [Ticket(name, new_id(), 60.0, Owner("host", 1), share) for _ in range(31)]
        for ticket in queue:
            enter(engine, ticket)
        waiters.append(queue[-1])
    plain = [Ticket(f"plain:{new_id()}", new_id(), 60.0, Owner("host", 1)) for _ in range(97)]
    for ticket in plain:
        enter(engine, ticket)
    standings = run(engine.renew([*plain, *waiters], timeout=LIMIT))
    places = [standing.place for standing in standings if standing is not None]
    assert places == [Place.ADMITTED] * 97 + [Place.WAITING] * 3


async def test_a_deep_queue_for_permits_is_woken_one_by_one(etcd_cluster: EtcdCluster) -> None:
    """A ticket that can't be next watches one ticket only: a release does not wake it."""
    name = f"permits:{new_id()}"
    engine = open_engine(etcd_cluster.url, BlockingIO())
    assert isinstance(engine, EtcdEngine)
    share = Share.of(2)
    tickets = [Ticket(name, new_id(), 60.0, Owner("host", 1), share) for _ in range(8)]
    for ticket in tickets:
        await asyncio.to_thread(enter, engine, ticket)
    entries = [engine._tickets.entries[ticket.id] for ticket in tickets]
    assert [len(entry.view.ahead) for entry in entries] == [0, 0, 2, 1, 1, 1, 1, 1]
    until = engine._io.now() + 60
    parked: list[asyncio.Task[Any]] = [
        asyncio.create_task(asyncio.to_thread(lambda one: run(engine.park(one, until)), ticket))
        for ticket in tickets[2:5]
    ]
    assert await asyncio.to_thread(run, engine.leave(tickets[1], timeout=LIMIT))
    first = await asyncio.wait_for(parked[0], LIMIT)
    second = await asyncio.wait_for(parked[1], LIMIT)
    assert first.place is Place.ADMITTED
    assert second.place is Place.WAITING, "it is the first that waits now"
    assert not parked[2].done()
    await asyncio.to_thread(run, engine.close())
    await asyncio.wait_for(asyncio.wait(parked), LIMIT)
    parked[2].exception()  # closing the engine woke it


def ahead(fence: int, share: Share) -> Ahead:
    return Ahead(b"key %d" % fence, fence, fence, 30.0, share)


def test_what_a_ticket_that_shares_waits_for() -> None:
    one, two = ahead(1, Share.of(3)), ahead(2, Share.of(3, 2))
    writer, reader = ahead(3, ALONE), ahead(4, READING)
    assert blockers(READING, QueueAhead([])) == Blockers()
    assert blockers(READING, QueueAhead([writer, one])) == Blockers((writer,)), "the newest"
    assert blockers(READING, QueueAhead([reader])) == Blockers(), "it held alone, and turned"
    assert blockers(Share.of(4), QueueAhead([], [ahead(1, Share.of(4, 3))])) == Blockers()
    assert blockers(Share.of(3), QueueAhead([], [one, two])) == Blockers((one, two), 1, short=True)
    assert blockers(Share.of(3), QueueAhead([writer], [one])) == Blockers((writer,))
    three = ahead(5, Share.of(3))
    crowd = QueueAhead([], [one, two, three], newest_peer=(three,))
    assert blockers(Share.of(3), crowd) == Blockers((one, two, three), 2, short=True), (
        "one that goes may give back two"
    )
    assert blockers(Share.of(3, 3), crowd) == Blockers((three,), short=True)
    assert (
        blockers(Share.of(200), QueueAhead([], [ahead(1, Share.of(200))], all_peers=False)) is None
    )


def test_a_record_is_stored_so_that_the_newer_one_is_greater() -> None:
    record = Record(9, 99.0, 1700000000.0, "0123abcd", Owner("host", 42, "somebody"))
    newer = record._replace(
        edition=10, ttl=30.0, share=Share("a group / of ~ three!", 1, 3), signals=2
    )
    for one in (record, newer):
        assert Record.unpack(one.pack()) == one
    assert newer.pack() > record.pack()


def test_no_group_is_among_the_keys_of_another() -> None:
    keys = Keys.of("name")
    groups = ["a", "ab", "a~", "a~b", "a%7Eb", "", "~"]
    tickets = {group: keys.ticket("label", group) for group in groups}
    assert len(set(tickets.values())) == len(groups)
    for group in groups[:5]:
        key, end = keys.peers(group)
        assert [other for other in groups if key <= tickets[other] < end] == [group]
        parts = keys.others(group)
        others = [
            other for other in groups if any(key <= tickets[other] < end for key, end in parts)
        ]
        assert others == [other for other in groups if other != group]


def test_a_ticket_is_near_its_clients_tickets_and_few_others() -> None:
    keys, labels = Keys.of("name"), Labels()
    own, sibling = keys.ticket(labels.take()), keys.ticket(labels.take())
    start, end = keys.near(own)
    assert keys.queue <= start <= own < end <= keys.end
    assert start <= sibling < end
    digits = [keys.ticket(f"{digit:x}") for digit in range(16)]
    assert sum(start <= digit < end for digit in digits) == 1
