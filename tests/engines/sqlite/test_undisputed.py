"""Taking and giving back with one statement: only where there is nothing to think about."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

import fencelock
from fencelock.core.ticket import ALONE, READING, Departure, Owner, Place, Share, Standing, Ticket
from fencelock.engines.sqlite import queue
from fencelock.engines.sqlite.statements import GIVE, SQL, TAKE
from fencelock.engines.sqlite.undisputed import give_back, take
from tests.engines.sqlite.bench import NAME, OWNER, Bench, executed

FAR = 2**60
"""A fence that no clock has come to."""


def expire(bench: Bench, id: str = "dead") -> None:
    bench.enter(id, ttl=1.0)
    bench.now += 2


def lose(bench: Bench) -> None:
    bench.enter("holder")
    bench.request_leave(Ticket(NAME, "holder", 30.0, OWNER), Departure.LOST)


def from_the_future(bench: Bench) -> None:
    bench.request_enter(Ticket(NAME, "ahead", 30.0, OWNER, floor=FAR), False)
    bench.leave("ahead")


def forgotten_from_the_future(bench: Bench) -> None:
    bench.connection.execute(SQL["swept"], (FAR, ""))


@pytest.mark.parametrize(
    "before",
    [
        lambda bench: bench.enter("holder"),
        lambda bench: bench.enter("newcomer"),
        lambda bench: [bench.enter(id) for id in ("holder", "waiting")],
        lambda bench: [bench.enter(id, READING) for id in ("a", "b")],
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
def test_what_is_not_simply_free_is_not_taken(
    bench: Bench, before: Callable[[Bench], object]
) -> None:
    before(bench)
    rows = bench.connection.execute("SELECT * FROM queue").fetchall()
    newcomer = Ticket(NAME, "newcomer", 30.0, OWNER)
    assert take(bench.queues._execute, newcomer, queue.now_us()) is None
    assert bench.connection.execute("SELECT * FROM queue").fetchall() == rows


def test_a_floor_ahead_of_the_clock_is_kept(bench: Bench) -> None:
    ticket = Ticket(NAME, "newcomer", 30.0, OWNER, floor=FAR)
    assert take(bench.queues._execute, ticket, queue.now_us()) is None
    assert bench.request_enter(ticket, False).fence == FAR + 1


@pytest.mark.parametrize(
    "before",
    [
        lambda bench: bench.enter("other"),
        lambda bench: [bench.enter(id) for id in ("mine", "waiting")],
        lambda bench: [bench.enter("mine"), bench.leave("mine")],
        lambda bench: expire(bench, "mine"),
    ],
    ids=["another's", "waited for", "given back before", "expired"],
)
def test_what_is_not_simply_mine_is_not_given_back(
    bench: Bench, before: Callable[[Bench], object]
) -> None:
    before(bench)
    rows = bench.connection.execute("SELECT * FROM queue").fetchall()
    mine = Ticket(NAME, "mine", 30.0, OWNER)
    assert not give_back(bench.queues._execute, mine, queue.now_us())
    assert bench.connection.execute("SELECT * FROM queue").fetchall() == rows


@pytest.mark.parametrize("share", [ALONE, READING, Share.of(3, 2)])
def test_whoever_comes_sees_one_that_was_undisputed(bench: Bench, share: Share) -> None:
    owner = Owner("elsewhere", 7, "label", "note")
    fence = bench.request_enter(Ticket(NAME, "first", 30.0, owner, share), False).fence
    bench.now += 2
    assert bench.do(bench.queues.names, "*") == [NAME]
    writer = bench.enter("writer")
    assert (writer.place, writer.recheck) == (Place.WAITING, pytest.approx(28.0))
    (seen,) = bench.do(bench.queues.inspect, NAME, 1).holders
    assert (seen.owner, seen.fence, seen.share) == (owner, fence, share)
    assert (seen.held_for, seen.expires_in) == (pytest.approx(2.0), pytest.approx(28.0))
    assert bench.leave("first")
    assert [(wake.address, wake.admitted) for wake in bench.queues.wakes] == [("writer:1", True)]


def test_one_that_shared_leaves_nothing_of_that_behind(bench: Bench) -> None:
    bench.enter("reader", READING)
    bench.leave("reader")
    bench.enter("writer")
    assert bench.enter("late", READING).place is Place.WAITING
    assert bench.do(bench.queues.inspect, NAME, 1).holders[0].share == ALONE


def test_one_that_died_undisputed_is_forgotten_when_its_time_has_come(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(queue, "FORGET_ABANDONED_US", 0)
    bench.enter("dead", ttl=1.0)
    bench.do(bench.queues.sweep, queue.now_us())
    assert bench.rows() == 1, "it lives"
    bench.now += 2
    time.sleep(1e-5)  # fences are moments of the wall clock, and this is to be a later one
    bench.do(bench.queues.sweep, queue.now_us())
    assert bench.rows() == 0


def test_one_of_another_boot_does_not_hold_though_it_was_undisputed(bench: Bench) -> None:
    bench.do(bench.queues.reboot, "this boot")
    bench.enter("dead", ttl=1e6)
    bench.enter("done", name="free")
    bench.leave("done", name="free")
    bench.do(bench.queues.reboot, "the next boot")
    assert bench.enter("heir", if_free=True).abandoned
    assert not bench.enter("heir", name="free", if_free=True).abandoned, "it was released"


def test_one_that_is_renewed_stays_undisputed(bench: Bench) -> None:
    ticket = Ticket(NAME, "holder", 30.0, OWNER)
    fence = bench.enter("holder").fence
    bench.now += 20
    moved = ticket._replace(ttl=60.0, owner=Owner("elsewhere", 7))
    with executed(bench.queues) as seen:
        assert bench.do(bench.queues.renew, [moved]) == [Standing(Place.ADMITTED, fence)]
        bench.do(bench.queues.renew, [ticket._replace(ttl=1.0)])
        assert bench.do(bench.queues.renew, [ticket._replace(id="other")])[0].place is Place.GONE
    assert seen[:2] == [SQL["prolong"]] * 2
    (holder,) = bench.do(bench.queues.inspect, NAME, 0).holders
    assert (holder.owner.host, holder.expires_in) == ("host", pytest.approx(60.0))


def test_one_that_is_renewed_too_late_is_gone(bench: Bench) -> None:
    expire(bench)
    late = Ticket(NAME, "dead", 30.0, OWNER)
    assert bench.do(bench.queues.renew, [late])[0].place is Place.GONE
    assert bench.enter("heir").abandoned


def test_without_a_boot_id_one_that_was_renewed_in_another_boot_does_not_hold(bench: Bench) -> None:
    bench.now = 10.0
    bench.enter("dead", ttl=1.0)
    bench.now = 10.5
    bench.do(bench.queues.renew, [Ticket(NAME, "dead", 1e6, OWNER)])
    bench.now = 10.2  # the clock has started anew
    bench.do(bench.queues.reboot, "")
    assert bench.enter("heir", if_free=True).abandoned


def test_the_short_way_is_taken_unless_the_last_one_had_to_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "random", lambda: 1.0)  # no sweep
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
        assert TAKE not in seen
        lease.release()
        other.lock("x").acquire().release()
        seen.clear()
        other.lock("x").acquire().release()
        assert seen == [TAKE, GIVE]


def test_where_the_file_is_busy_for_longer_than_the_ttl_nobody_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time begins when it is its turn: else it would have expired in the moment in which it came."""
    monkeypatch.setattr(queue, "random", lambda: 1.0)  # no sweep
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
