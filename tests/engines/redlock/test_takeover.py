"""A ticket that another client has entered: what the nodes are asked, and what can go wrong meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fencelock.core.ticket import Departure, Owner, Place, Standing, Ticket
from fencelock.engines.redlock import engine as engines
from fencelock.engines.redlock.engine import RedlockEngine
from fencelock.engines.redlock.scripts import RELEASE, keys_of
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.engines.redlock.node_state import counted, fence, holders
from tests.servers_redlock import RedlockSet
from tests.waiting import eventually

LIMIT = 5.0
Open = Callable[[], RedlockEngine]


@pytest.fixture
def opened(nodes: RedlockSet) -> Iterator[Open]:
    with ExitStack() as ends:

        def open_one() -> RedlockEngine:
            engine = open_engine(nodes.url + "?node_timeout=2", BlockingIO())
            assert isinstance(engine, RedlockEngine)
            ends.callback(lambda: run(engine.close()))
            enter(engine, warm := new_ticket())  # so that it is connected, and the nodes vote
            run(engine.leave(warm, timeout=LIMIT))
            run(engine.inspect(warm.name, limit=0, timeout=LIMIT))  # which waits for all of them
            return engine

        yield open_one


def new_ticket(ttl: float = 60.0) -> Ticket:
    return Ticket(f"takeover:{new_id()}", new_id(), ttl, Owner("host", 1))


def enter(engine: RedlockEngine, ticket: Ticket, *, if_free: bool = False) -> Standing:
    return run(engine.enter(ticket, if_free=if_free, timeout=LIMIT))


def renew(engine: RedlockEngine, ticket: Ticket) -> Standing | None:
    return run(engine.renew([ticket], timeout=LIMIT))[0]


def settled(engine: RedlockEngine, nodes: RedlockSet, ticket: Ticket) -> None:
    """Wait until all nodes have the lock for this ticket: a majority is enough for an answer."""
    eventually(lambda: holders(nodes.nodes, ticket.name) == [ticket.id] * 5, "all votes")
    run(engine.inspect(ticket.name, limit=0, timeout=LIMIT))


@pytest.mark.parametrize("how", ["enter", "renew"])
def test_a_late_withdrawal_does_not_end_what_another_client_has_confirmed(
    nodes: RedlockSet, opened: Open, how: str
) -> None:
    """A process that was stopped in the middle of a bid takes that bid back when it goes on."""
    one, other = opened(), opened()
    ticket = new_ticket()
    number = enter(one, ticket).fence
    bid = one._states[ticket.id].id
    standing = enter(other, ticket) if how == "enter" else renew(other, ticket)
    assert standing is not None
    assert standing.fence == number
    settled(other, nodes, ticket)
    withdrawn = str(Departure.WITHDRAWN.value)
    for node in nodes.nodes:
        with node.client() as redis:
            run_id, keys = redis.info("server")["run_id"], keys_of(ticket.name)
            its = (run_id, bid, "0", withdrawn, "", "host 1 ", "")
            assert redis.eval(RELEASE.text, len(keys), *keys, *its) == 2
    again = renew(other, ticket)
    assert again is not None
    assert (again.place, again.fence) == (Place.ADMITTED, number)


@pytest.mark.parametrize("down", [1, 2])
def test_a_minority_of_nodes_is_away(nodes: RedlockSet, opened: Open, down: int) -> None:
    one, other = opened(), opened()
    ticket = new_ticket()
    number = enter(one, ticket).fence
    settled(one, nodes, ticket)
    for node in nodes.nodes[:down]:
        node.kill()
    for standing in (renew(other, ticket), enter(one, ticket), enter(other, ticket, if_free=True)):
        assert standing is not None
        assert (standing.place, standing.fence) == (Place.ADMITTED, number)
    assert {fence(node, ticket.name) for node in nodes.nodes[down:]} == {number}
    assert run(one.leave(ticket, timeout=LIMIT))


def test_what_a_ticket_of_another_client_costs(nodes: RedlockSet, opened: Open) -> None:
    one, other = opened(), opened()
    ticket = new_ticket()

    def used(act: Callable[[], object]) -> set[int]:
        """The scripts that each node runs."""
        with counted(nodes.nodes) as seen:
            act()
            run(one.inspect(ticket.name, limit=0, timeout=LIMIT))  # which waits for all answers
            run(other.inspect(ticket.name, limit=0, timeout=LIMIT))
        return {each["evalsha"] - 2 for each in seen}

    assert used(lambda: enter(one, ticket)) == {1}
    assert used(lambda: renew(one, ticket)) == {1}
    assert used(lambda: renew(other, ticket)) == {2}, "find it, take it over"
    assert used(lambda: renew(other, ticket)) == {1}
    assert used(lambda: renew(one, ticket)) == {3}, "it is not the client's any more: as above"
    assert used(lambda: enter(other, ticket)) == {4}, "a bid, taken back; then as above"
    assert used(lambda: enter(other, ticket)) == {1}
    assert used(lambda: run(other.leave(ticket, timeout=LIMIT))) == {1}


def test_a_client_forgets_tickets_that_went_on_elsewhere(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "_MIN_TIDY", 2)
    one, other = opened(), opened()
    lasting, *moved = [new_ticket(ttl) for ttl in (600.0, 20.0, 20.0, 20.0)]
    for ticket in (lasting, *moved):
        enter(one, ticket)
        renew(other, ticket)
    real = one._io.now
    with monkeypatch.context() as later:
        later.setattr(one._io, "now", lambda: real() + 50.0)
        one._new_state(new_id())
    assert set(one._states) == {lasting.id}
    for ticket in (lasting, *moved):
        assert run(one.leave(ticket, timeout=LIMIT)), "it is found at the nodes"
