"""When tickets expire that no client has watched, and rows of tickets that died together."""

from __future__ import annotations

import pytest

from fencelock.core.ticket import ALONE, Owner, Place, Share, Standing, Ticket
from fencelock.engines.etcd import markers, tickets
from fencelock.engines.etcd.engine import EtcdEngine
from fencelock.engines.etcd.tickets import Expiry
from fencelock.engines.registry import open_engine
from fencelock.io.blocking import BlockingIO, run
from fencelock.primitives.waiting import new_id
from tests.waiting import PATIENCE, eventually

READER = Share("readers", 0, 1)


def test_revisions_that_fall_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a backup was restored, a ticket may be renewed at a revision that was reached before."""
    io = BlockingIO()
    expiry = Expiry(io)
    for moment, revision in enumerate([10, 20, 30, 15]):
        monkeypatch.setattr(io, "now", lambda: float(moment))  # noqa: B023
        expiry.reached(revision)
    monkeypatch.setattr(io, "now", lambda: 99.0)
    left = [expiry.left(f"at {one}", one, 1_000.0) for one in (10, 15, 20)]
    assert left == pytest.approx([902.0, 905.0, 1_000.0]), (
        "they count from moments 0 and 3, and from now"
    )


@pytest.fixture
def dead(etcd_url: str) -> EtcdEngine:
    """An engine that renews nothing: its tickets are like those of a process that was killed."""
    engine = open_engine(etcd_url, BlockingIO())
    assert isinstance(engine, EtcdEngine)
    return engine


def enter(engine: EtcdEngine, one: Ticket, *, if_free: bool = False) -> Standing:
    return run(engine.enter(one, if_free=if_free, timeout=PATIENCE))


def ticket(name: str, share: Share = ALONE, ttl: float = 1.5) -> Ticket:
    return Ticket(name, new_id(), ttl, Owner("host", 1), share)


def after(engine: EtcdEngine, standing: Standing) -> None:
    """Wait until the ticket ahead should have expired."""
    until = engine._io.now() + standing.recheck
    eventually(lambda: engine._io.now() > until, "the ttl to pass")


@pytest.mark.parametrize("share", [ALONE, READER])
@pytest.mark.parametrize("if_free", [False, True])
def test_a_row_that_died_is_followed_after_one_ttl(
    dead: EtcdEngine, etcd_url: str, share: Share, if_free: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The waiter watches only the last ticket of the row. It takes them out a few at a time."""
    for module in (markers, tickets):
        monkeypatch.setattr(module, "BATCH", 2)
    engine, name = open_engine(etcd_url, BlockingIO()), f"row:{new_id()}"
    assert isinstance(engine, EtcdEngine)
    for one in range(5):
        enter(dead, ticket(name, share if one % 2 else ALONE))
    waiter = ticket(name, ttl=30)
    standing = enter(engine, waiter, if_free=if_free)
    assert standing.place is (Place.REFUSED if if_free else Place.WAITING)
    after(engine, standing)
    standing = enter(engine, waiter, if_free=if_free)
    assert standing.place is Place.ADMITTED
    assert standing.abandoned
    run(engine.leave(waiter, timeout=PATIENCE))
    run(engine.close())
    run(dead.close())


def test_a_live_ticket_stays_in_its_row(dead: EtcdEngine, etcd_url: str) -> None:
    engine, name = open_engine(etcd_url, BlockingIO()), f"alive:{new_id()}"
    assert isinstance(engine, EtcdEngine)
    enter(dead, ticket(name))
    lives = ticket(name, ttl=30)
    enter(dead, lives)
    enter(dead, ticket(name))
    waiter = ticket(name, ttl=30)
    after(engine, enter(engine, waiter))
    run(dead.renew([lives], timeout=PATIENCE))
    standing = enter(engine, waiter)
    assert standing.place is Place.WAITING
    assert standing.recheck > 15
    (ahead,) = engine._tickets.entries[waiter.id].view.ahead
    assert ahead.key == dead._tickets.entries[lives.id].key
    assert run(engine.inspect(name, limit=5, timeout=PATIENCE)).waiting == 1, "the others have gone"
    for one, mine in ((engine, waiter), (dead, lives)):
        run(one.leave(mine, timeout=PATIENCE))
        run(one.close())
