"""What notes cost, and how they and their leases end by themselves."""

from collections.abc import Iterator

import pytest

from fencelock.core.ticket import READING, Owner, Place, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.etcd.keys import note_key
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.engines.etcd import server_state
from tests.servers_etcd import EtcdCluster
from tests.waiting import eventually

LIMIT = 5.0


@pytest.fixture
def engine(etcd_cluster: EtcdCluster) -> Iterator[Engine]:
    engine = open_engine(etcd_cluster.url, BlockingIO())
    yield engine
    run(engine.close())


@pytest.fixture
def holder(engine: Engine) -> Ticket:
    ticket = Ticket(f"notes:{new_id()}/%", new_id(), 60.0, Owner("host", 1))
    run(engine.enter(ticket, if_free=False, timeout=LIMIT))
    return ticket


def remember(engine: Engine, ticket: Ticket, text: str, keep: float = 600) -> bool:
    return run(engine.remember(ticket, text, keep=keep, timeout=LIMIT))


def recall(engine: Engine, ticket: Ticket) -> str | None:
    return run(engine.recall(ticket.name, timeout=LIMIT))


def test_what_it_costs(etcd_cluster: EtcdCluster, engine: Engine, holder: Ticket) -> None:
    before = server_state.calls(etcd_cluster)
    assert remember(engine, holder, "one")
    assert recall(engine, holder) == "one"
    first = server_state.calls(etcd_cluster)
    assert first - before == {"LeaseGrant": 1, "Txn": 1, "Range": 1}
    assert remember(engine, holder, "two")
    assert server_state.calls(etcd_cluster) - first == {"LeaseGrant": 1, "Txn": 1, "LeaseRevoke": 1}


def test_no_lease_is_left_without_its_note(
    etcd_cluster: EtcdCluster, engine: Engine, holder: Ticket
) -> None:
    before = server_state.leases(etcd_cluster)
    for text in ("one", "two"):
        assert remember(engine, holder, text)
    (lease,) = server_state.leases(etcd_cluster) - before
    assert server_state.lease_of(etcd_cluster, note_key(holder.name).decode()) == lease
    etcd_cluster.ctl("del", next(iter(server_state.tickets(etcd_cluster, holder.name).values())))
    assert not remember(engine, holder, "three"), "evicted, though its client does not know"
    assert server_state.leases(etcd_cluster) - before == {lease}
    assert recall(engine, holder) == "two"


def test_a_note_ends_by_itself(etcd_cluster: EtcdCluster, engine: Engine, holder: Ticket) -> None:
    before = server_state.leases(etcd_cluster)
    assert remember(engine, holder, "short", keep=0.2)
    key = note_key(holder.name).decode()
    assert server_state.keys(etcd_cluster, key) == [key]
    eventually(lambda: recall(engine, holder) is None, "its end for those who know it")
    eventually(lambda: not server_state.keys(etcd_cluster, key), "its end for everybody")
    assert server_state.leases(etcd_cluster) <= before


def test_one_of_several_holders_that_has_to_look_first(engine: Engine, holder: Ticket) -> None:
    readers = [holder._replace(id=new_id(), share=READING) for _ in range(2)]
    for reader in readers:
        assert run(engine.enter(reader, if_free=False, timeout=LIMIT)).place is Place.WAITING
        assert not remember(engine, reader, "too soon")
    assert run(engine.leave(holder, timeout=LIMIT))
    for reader in readers:
        assert remember(engine, reader, reader.id), "it was admitted, though nobody has told it"
        assert recall(engine, holder) == reader.id
