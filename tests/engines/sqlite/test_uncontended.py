"""Taking and giving back with one statement: only in the simple cases."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import fencelock
from fencelock.core.ticket import ALONE, READING, Departure, Owner, Place, Share, Standing, Ticket
from fencelock.engines.sqlite import operations
from fencelock.engines.sqlite.statements import SQL
from fencelock.engines.sqlite.uncontended import give_back, take
from tests.engines.sqlite.bare_file import NAME, OWNER, BareFile, executed

FAR = 2**60
"""A fence that no clock has come to."""


def expire(bare: BareFile, id: str = "dead") -> None:
    bare.enter(id, ttl=1.0)
    bare.now += 2


def lose(bare: BareFile) -> None:
    bare.enter("holder")
    bare.request_leave(Ticket(NAME, "holder", 30.0, OWNER), Departure.LOST)


def from_the_future(bare: BareFile) -> None:
    bare.request_enter(Ticket(NAME, "ahead", 30.0, OWNER, floor=FAR), False)
    bare.leave("ahead")


def forgotten_from_the_future(bare: BareFile) -> None:
    bare.connection.execute(SQL["swept"], (FAR, ""))


@pytest.mark.parametrize(
    "before",
    [
        lambda bare: bare.enter("holder"),
        lambda bare: bare.enter("newcomer"),
        lambda bare: [bare.enter(id) for id in ("holder", "waiting")],
        lambda bare: [bare.enter(id, READING) for id in ("a", "b")],
        expire,
        lose,
        from_the_future,
        forgotten_from_the_future,
    ],
    ids=[
        "held",
        "held by itself",
        "waited for",
        "shared",
        "expired",
        "abandoned",
        "a fence ahead of the clock",
        "such a fence of a name that was forgotten",
    ],
)
def test_a_name_that_is_not_simply_free_is_not_taken(
    bare: BareFile, before: Callable[[BareFile], object]
) -> None:
    before(bare)
    rows = bare.connection.execute("SELECT * FROM queue").fetchall()
    newcomer = Ticket(NAME, "newcomer", 30.0, OWNER)
    assert take(bare.operations._execute, newcomer, operations.now_us()) is None
    assert bare.connection.execute("SELECT * FROM queue").fetchall() == rows


def test_a_floor_ahead_of_the_clock_is_kept(bare: BareFile) -> None:
    ticket = Ticket(NAME, "newcomer", 30.0, OWNER, floor=FAR)
    assert take(bare.operations._execute, ticket, operations.now_us()) is None
    assert bare.request_enter(ticket, False).fence == FAR + 1


@pytest.mark.parametrize(
    "before",
    [
        lambda bare: bare.enter("other"),
        lambda bare: [bare.enter(id) for id in ("mine", "waiting")],
        lambda bare: [bare.enter("mine"), bare.leave("mine")],
        lambda bare: expire(bare, "mine"),
    ],
    ids=["another's", "waited for", "given back before", "expired"],
)
def test_a_name_that_is_not_simply_mine_is_not_given_back(
    bare: BareFile, before: Callable[[BareFile], object]
) -> None:
    before(bare)
    rows = bare.connection.execute("SELECT * FROM queue").fetchall()
    mine = Ticket(NAME, "mine", 30.0, OWNER)
    assert not give_back(bare.operations._execute, mine, operations.now_us())
    assert bare.connection.execute("SELECT * FROM queue").fetchall() == rows


@pytest.mark.parametrize("share", [ALONE, READING, Share.of(3, 2)])
def test_other_requests_see_an_uncontended_ticket(bare: BareFile, share: Share) -> None:
    owner = Owner("elsewhere", 7, "label", "data")
    fence = bare.request_enter(Ticket(NAME, "first", 30.0, owner, share), False).fence
    bare.now += 2
    assert bare.do(bare.operations.names, "*") == [NAME]
    writer = bare.enter("writer")
    assert (writer.place, writer.recheck) == (Place.WAITING, pytest.approx(28.0))
    (seen,) = bare.do(bare.operations.inspect, NAME, 1).holders
    assert (seen.owner, seen.fence, seen.share) == (owner, fence, share)
    assert (seen.held_for, seen.expires_in) == (pytest.approx(2.0), pytest.approx(28.0))
    assert bare.leave("first")
    assert [(wake.address, wake.admitted) for wake in bare.operations.wake_ups] == [
        ("writer:1", True)
    ]


def test_a_ticket_that_shared_leaves_no_share_behind(bare: BareFile) -> None:
    bare.enter("reader", READING)
    bare.leave("reader")
    bare.enter("writer")
    assert bare.enter("late", READING).place is Place.WAITING
    assert bare.do(bare.operations.inspect, NAME, 1).holders[0].share == ALONE


def test_an_expired_uncontended_ticket_is_forgotten_in_time(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(operations, "FORGET_ABANDONED_US", 0)
    bare.enter("dead", ttl=1.0)
    bare.do(bare.operations.sweep, operations.now_us())
    assert bare.rows() == 1, "it lives"
    bare.now += 2
    time.sleep(1e-5)  # fences are moments of the wall clock: the next one must be later
    bare.do(bare.operations.sweep, operations.now_us())
    assert bare.rows() == 0


def test_an_uncontended_ticket_of_another_boot_does_not_hold(bare: BareFile) -> None:
    bare.do(bare.operations.start_boot, "this boot")
    bare.enter("dead", ttl=1e6)
    bare.enter("done", name="free")
    bare.leave("done", name="free")
    bare.do(bare.operations.start_boot, "the next boot")
    assert bare.enter("heir", if_free=True).abandoned
    assert not bare.enter("heir", name="free", if_free=True).abandoned, "it was released"


def test_a_renewed_ticket_stays_uncontended(bare: BareFile) -> None:
    ticket = Ticket(NAME, "holder", 30.0, OWNER)
    fence = bare.enter("holder").fence
    bare.now += 20
    moved = ticket._replace(ttl=60.0, owner=Owner("elsewhere", 7))
    with executed(bare.operations) as seen:
        assert bare.do(bare.operations.renew, [moved]) == [Standing(Place.ADMITTED, fence)]
        bare.do(bare.operations.renew, [ticket._replace(ttl=1.0)])
        assert bare.do(bare.operations.renew, [ticket._replace(id="other")])[0].place is Place.GONE
    assert seen[:2] == [SQL["renew_uncontended"]] * 2
    (holder,) = bare.do(bare.operations.inspect, NAME, 0).holders
    assert (holder.owner.host, holder.expires_in) == ("host", pytest.approx(60.0))


def test_a_ticket_that_is_renewed_too_late_is_gone(bare: BareFile) -> None:
    expire(bare)
    late = Ticket(NAME, "dead", 30.0, OWNER)
    assert bare.do(bare.operations.renew, [late])[0].place is Place.GONE
    assert bare.enter("heir").abandoned


def test_without_a_boot_id_a_ticket_renewed_in_another_boot_does_not_hold(
    bare: BareFile,
) -> None:
    bare.now = 10.0
    bare.enter("dead", ttl=1.0)
    bare.now = 10.5
    bare.do(bare.operations.renew, [Ticket(NAME, "dead", 1e6, OWNER)])
    bare.now = 10.2  # the clock has started anew
    bare.do(bare.operations.start_boot, "")
    assert bare.enter("heir", if_free=True).abandoned


def test_one_statement_is_used_unless_the_last_ticket_had_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "random", lambda: 1.0)  # no sweep
    url = f"sqlite:///{tmp_path}/locks.db"
    with fencelock.Client(url) as one, fencelock.Client(url) as other:
        lease = one.lock("x").acquire()
        assert other.lock("x").try_acquire() is None
        seen: list[str] = []

        def note(cursor: object, sql: str, row: object) -> bool:
            seen.append(sql)
            return True

        other._context.engine._file._connection.exec_trace = note  # type: ignore[attr-defined]
        assert other.lock("x").try_acquire() is None
        assert SQL["take"] not in seen
        lease.release()
        other.lock("x").acquire().release()
        seen.clear()
        other.lock("x").acquire().release()
        assert seen == [SQL["take"], SQL["give_back"]]


def test_where_the_file_is_busy_for_longer_than_the_ttl_nobody_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins when it is its turn: else it would have expired in the moment in which it came."""
    monkeypatch.setattr(operations, "random", lambda: 1.0)  # no sweep
    url = f"sqlite:///{tmp_path}/locks.db"
    with fencelock.Client(url) as client, fencelock.Client(url) as other:
        client.lock("before").acquire().release()
        busy = apsw.Connection(f"{tmp_path}/locks.db")
        busy.execute("BEGIN IMMEDIATE")
        taking = threading.Thread(target=client.lock("x", ttl=1.5).try_acquire)
        taking.start()
        time.sleep(1.7)
        busy.execute("COMMIT")
        taking.join()
        assert not other.lock("x").acquire().abandoned
        busy.close()
