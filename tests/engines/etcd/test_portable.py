"""One ticket at two clients: its pointer, its lease, late requests, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from fencelock.core.ticket import Owner, Place, Standing, Ticket
from fencelock.engines.etcd import looking, tickets
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.entering import Join
from fencelock.engines.etcd.keys import Keys
from fencelock.engines.etcd.wire import created_at, txn
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.effort import effort
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster

LIMIT = 5.0
Open = Callable[[], EtcdEngine]


@pytest.fixture
def opened(etcd_cluster: EtcdCluster) -> Iterator[Open]:
    with ExitStack() as ends:

        def open_one() -> EtcdEngine:
            engine = open_engine(etcd_cluster.url, BlockingIO())
            assert isinstance(engine, EtcdEngine)
            ends.callback(lambda: run(engine.close()))
            return engine

        yield open_one


def new_ticket(ttl: float = 60.0) -> Ticket:
    return Ticket(f"portable:{new_id()}", new_id(), ttl, Owner("host", 1))


def enter(engine: EtcdEngine, ticket: Ticket) -> Standing:
    return run(engine.enter(ticket, if_free=False, timeout=LIMIT))


def renew(engine: EtcdEngine, ticket: Ticket) -> Standing | None:
    return run(engine.renew([ticket], timeout=LIMIT))[0]


def leases(cluster: EtcdCluster, ticket: Ticket) -> set[int]:
    """The leases on which a ticket and its pointer live."""
    key = server_state.tickets(cluster, ticket.name)[ticket.id]
    pointer = Keys.of(ticket.name).pointer(ticket.id).decode()
    return {server_state.lease_of(cluster, each) for each in (key, pointer)}


def test_a_ticket_lives_on_the_lease_of_the_client_that_renews_it(
    etcd_cluster: EtcdCluster, opened: Open
) -> None:
    """So it does not end with the client that entered it."""
    one, other = opened(), opened()
    ticket = new_ticket()
    enter(one, ticket)
    first = leases(etcd_cluster, ticket)
    renew(other, ticket)
    second = leases(etcd_cluster, ticket)
    assert len(first) == len(second) == 1, "the pointer lives as long as the ticket"
    assert first != second
    etcd_cluster.ctl("lease", "revoke", f"{first.pop():x}")
    standing = renew(other, ticket)
    assert standing is not None
    assert standing.place is Place.ADMITTED
    assert run(other.leave(ticket, timeout=LIMIT))
    assert server_state.of(etcd_cluster, ticket.name) == []


def test_a_late_renewal_does_not_take_the_ticket_back(
    etcd_cluster: EtcdCluster, opened: Open
) -> None:
    """It would put the ticket on the lease of a client that may be dead."""
    one, other = opened(), opened()
    ticket = new_ticket()
    enter(one, ticket)
    entry = one._tickets.entries[ticket.id]
    assert entry.stored.lease is not None
    change = entry.change(ticket, 61.0, entry.stored.lease)
    late = looking.renewal(entry, entry.view, change)
    renew(other, ticket)
    moved = leases(etcd_cluster, ticket)
    request = txn([created_at(entry.key, entry.view.fence)], late)
    run(one._cluster.txn(request, one._io.now() + LIMIT))
    assert leases(etcd_cluster, ticket) == moved
    renew(one, ticket)
    assert leases(etcd_cluster, ticket) != moved, "a renewal that knows of the other client does"


def test_a_late_request_to_join_does_not_join_twice(
    etcd_cluster: EtcdCluster, opened: Open
) -> None:
    """As that of a process that was stopped for a while."""
    one, other = opened(), opened()
    ticket = new_ticket()
    entry = one._tickets.new_entry(ticket)
    until = one._io.now() + LIMIT
    lease = run(one._tickets.leases.covering(60.0, until))
    markers = run(one._tickets.leases.markers(until))
    change = entry.change(ticket, 60.0, lease)
    late = [
        Join(entry, entry.view, change, markers, if_free).request() for if_free in (True, False)
    ]
    fence = enter(other, ticket).fence
    for request in late:
        assert not run(one._cluster.txn(request, until)).succeeded
    assert len(server_state.tickets(etcd_cluster, ticket.name)) == 1
    assert enter(one, ticket).fence == fence


def test_clients_that_enter_a_ticket_at_once_agree(etcd_cluster: EtcdCluster, opened: Open) -> None:
    engines = [opened() for _ in range(4)]
    with ThreadPoolExecutor(len(engines)) as threads:
        for _ in range(effort(5, 100)):
            ticket = new_ticket()
            standings = list(threads.map(enter, engines, [ticket] * len(engines)))
            assert {one.place for one in standings} == {Place.ADMITTED}
            assert len({one.fence for one in standings}) == 1
            assert len(server_state.tickets(etcd_cluster, ticket.name)) == 1
            left = threads.map(lambda one: run(one.leave(ticket, timeout=LIMIT)), engines)  # noqa: B023
            assert sorted(left) == [False] * 3 + [True]
            assert server_state.of(etcd_cluster, ticket.name) == []


def test_what_a_ticket_of_another_client_costs(etcd_cluster: EtcdCluster, opened: Open) -> None:
    one, other = opened(), opened()
    for engine in (one, other):  # grants the leases
        warm = new_ticket()
        enter(engine, warm)
        run(engine.leave(warm, timeout=LIMIT))
    ticket = new_ticket()
    enter(one, ticket)
    before = server_state.calls(etcd_cluster)

    def used() -> dict[str, int]:
        nonlocal before
        before, last = server_state.calls(etcd_cluster), before
        calls = before - last
        calls.pop("LeaseKeepAlive", 0)
        return dict(calls)

    renew(other, ticket)
    assert used() == {"Txn": 3}, "where it is, its record, and the renewal"
    renew(other, ticket)
    assert used() == {"Txn": 1}
    renew(one, ticket)
    assert used() == {"Txn": 2}, "the first one finds that another client has changed the record"
    enter(other, ticket)
    assert used() == {"Txn": 2}
    enter(opened(), ticket)
    first = used()
    assert first["Txn"] == 4, "that it is in the queue, then as above"
    assert run(other.leave(ticket, timeout=LIMIT))
    assert used() == {"Txn": 1}


@pytest.mark.parametrize("known", [True, False], ids=["same client", "another client"])
def test_a_ticket_that_was_deleted_by_hand_joins_anew(
    etcd_cluster: EtcdCluster, opened: Open, known: bool
) -> None:
    one, other = opened(), opened()
    ticket = new_ticket()
    fence = enter(one, ticket).fence
    etcd_cluster.ctl("del", Keys.of(ticket.name).everything.decode(), "--prefix")
    assert enter(one if known else other, ticket).fence > fence
    assert run(other.leave(ticket, timeout=LIMIT))
    assert server_state.of(etcd_cluster, ticket.name) == []


def test_all_tickets_of_a_client_that_died_are_found_together(
    etcd_cluster: EtcdCluster, opened: Open
) -> None:
    one, other = opened(), opened()
    many = [new_ticket() for _ in range(120)]
    for ticket in many:
        enter(one, ticket)
    before = server_state.calls(etcd_cluster)
    standings = run(other.renew(many, timeout=LIMIT))
    assert {standing.place for standing in standings if standing} == {Place.ADMITTED}
    assert (server_state.calls(etcd_cluster) - before)["Txn"] == 2 * 3
    for ticket in many:
        assert run(other.leave(ticket, timeout=LIMIT))


def test_a_client_forgets_tickets_that_went_on_elsewhere(
    etcd_cluster: EtcdCluster, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "_MIN_TIDY", 2)
    one, other = opened(), opened()
    lasting, *moved = [new_ticket(ttl) for ttl in (600.0, 20.0, 20.0, 20.0)]
    for ticket in (lasting, *moved):
        enter(one, ticket)
        renew(other, ticket)
    real = one._io.now
    monkeypatch.setattr(one._io, "now", lambda: real() + 50.0)
    known = len(one._tickets.entries)
    enter(one, new_ticket())
    assert known == 4
    assert len(one._tickets.entries) == 2
    assert lasting.id in one._tickets.entries
    for ticket in (lasting, *moved):
        assert run(one.leave(ticket, timeout=LIMIT)), "it is found by its id"
