"""The queue in SQL: as exact as the model though it is lazy, and no slower when many wait."""

from __future__ import annotations

import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencelock.core.queue import TicketQueue
from fencelock.core.ticket import (
    ALONE,
    READING,
    Departure,
    Inspection,
    Place,
    Share,
    Standing,
    Ticket,
)
from fencelock.engines.sqlite import operations
from fencelock.engines.sqlite.statements import SQL
from tests.effort import effort
from tests.engines.sqlite.bare_file import NAME, OWNER, BareFile, executed, instructions

ACTS = [*["enter"] * 5, "if_free", "renew", "renew all", *["leave"] * 2, "evict", "look", "sweep"]
ACTS += ["remember"]

SHARES = [ALONE, ALONE, READING, READING, Share.of(3), Share.of(3, 2)]
SHARES += [Share.rate(3, 1.5), Share.rate(3, 1.5), Share.rate(3, 1.5, 2), Share.rate(2, 1.5)]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.integers(0, 5),
        st.sampled_from([1.0, 2.0, 5.0]),
        st.sampled_from([*[0.0] * 4, 0.001, 0.5, 1.0, 3.0]),
        st.sampled_from(SHARES),
        st.sampled_from(Departure),
    ),
    min_size=40,
    max_size=60,
)


@settings(
    max_examples=effort(60, 600),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_expiry_is_exact_though_it_is_lazy(
    steps: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare, model = BareFile(tmp_path), TicketQueue(NAME)
    monkeypatch.setattr(operations, "now_us", lambda: round(bare.now * 1e6))
    fences: dict[int, int] = {0: 0}
    for act, contender, ttl, pause, share, departure in steps:
        bare.now += pause
        ticket = Ticket(NAME, f"t{contender}", ttl, OWNER, share)
        compare(fences, *both(bare, model, act, ticket, departure))
        woken = [wake.fence for wake in bare.operations.wake_ups if wake.admitted]
        bare.operations.wake_ups.clear()
        present = {one.ticket.id: one.fence for one in model._entries.values()}
        told = [
            fences[present[one.id]]
            for one in model.told()
            if model.standing(one.id, bare.now).place is Place.ADMITTED  # not if it must only look
        ]
        if act.startswith("renew") and ticket.id in present:
            # It may also wake the very ticket that it renews: another thread waits with that.
            woken = [fence for fence in woken if fence != fences[present[ticket.id]]]
        assert woken == told
    ours = [fences[theirs] for theirs in sorted(fences)]
    assert ours == sorted(set(ours)), "fences grow in the order in which they were handed out"
    bare.connection.close()


def both(
    bare: BareFile, model: TicketQueue, act: str, ticket: Ticket, departure: Departure
) -> tuple[Any, Any]:
    """The same request to the engine and to the model."""
    requests, now = bare.operations, bare.now
    if act.startswith("renew"):
        ids = [ticket.id, *(f"t{number}" for number in range(6) if act == "renew all")]
        # As its client would: how it shares may be changed by entering again only.
        known = {id: entry.ticket.share for id, entry in model._entries.items()}
        tickets = [ticket._replace(id=id, share=known.get(id, ticket.share)) for id in ids]
        return bare.do(requests.renew, tickets), [model.renew(one, now) for one in tickets]
    if act == "remember":
        ours = bare.do(requests.remember, ticket, "done", 60.0)
        return ours, model.remember(ticket, "done", 60.0, now)
    if act == "leave":
        return bare.request_leave(ticket, departure), model.leave(ticket, now, departure)
    if act == "evict":
        return bare.do(requests.evict, NAME), model.evict(now)
    if act == "sweep":
        bare.do(requests.sweep, round(now * 1e6))
    if act in ("look", "sweep"):
        return bare.do(requests.inspect, NAME, 2), model.inspect(now, 2)
    if_free = act == "if_free"
    entry = model._entries.get(ticket.id)
    if entry is not None and ticket.share.lasts:  # the share of a rate's ticket never changes
        ticket = ticket._replace(share=entry.ticket.share)
    ours = bare.request_enter(ticket, if_free)
    return ours, model.enter(ticket, now, if_free=if_free)


def compare(fences: dict[int, int], ours: Any, theirs: Any) -> None:
    if isinstance(theirs, list):
        for our, their in zip(ours, theirs, strict=True):
            compare(fences, our, their)
    elif isinstance(theirs, Standing):
        assert (ours.place, ours.abandoned) == (theirs.place, theirs.abandoned)
        assert fences.setdefault(theirs.fence, ours.fence) == ours.fence
        assert ours.recheck <= theirs.recheck + 1e-6, "it looks again no later than the model"
    elif isinstance(theirs, Inspection):
        assert (ours.waiting, ours.abandoned) == (theirs.waiting, theirs.abandoned)
        assert ours.fence in (fences[theirs.fence], 0)
        for seen, expected in ((ours.holders, theirs.holders), (ours.waiters, theirs.waiters)):
            assert [one.fence for one in seen] == [fences[one.fence] for one in expected]
            assert [one.share for one in seen] == [one.share for one in expected]
            assert [one[2] for one in seen] == pytest.approx([one[2] for one in expected])
            assert [one.expires_in for one in seen] == pytest.approx(
                [one.expires_in for one in expected]
            )
    else:
        assert ours == theirs


def test_a_waiter_admitted_and_evicted_in_one_transaction_is_not_told_that_it_holds(
    bare: BareFile,
) -> None:
    bare.enter("dead", ttl=1.0)
    bare.enter("waiting", ttl=30.0)
    bare.now += 2
    assert bare.do(bare.operations.evict, NAME)
    assert [(wake.address, wake.admitted) for wake in bare.operations.wake_ups] == [
        ("waiting:1", False)
    ]


def test_readers_admitted_and_evicted_in_one_transaction(bare: BareFile) -> None:
    bare.enter("dead", ttl=1.0)
    for reader in ("a", "b"):
        bare.enter(reader, READING)
    bare.enter("heir")
    bare.now += 2
    assert bare.do(bare.operations.evict, NAME)
    wakes = [(wake.address, wake.admitted) for wake in bare.operations.wake_ups]
    assert wakes == [("a:1", False), ("b:1", False), ("heir:1", True)]


def test_exactly_the_tickets_that_fit_are_admitted(bare: BareFile) -> None:
    bare.enter("alone")
    for id, weight in (("a", 2), ("b", 1), ("c", 1), ("d", 1)):
        bare.enter(id, Share.of(3, weight))
    for leaving, told in (("alone", ["a:1", "b:1"]), ("b", ["c:1"]), ("a", ["d:1"])):
        bare.leave(leaving)
        assert [wake.address for wake in bare.operations.wake_ups if wake.admitted] == told
        bare.operations.wake_ups.clear()


@pytest.mark.parametrize(
    ("asking", "told"), [("a", ["b:1", "c:1"]), ("writer", ["a:1", "b:1", "c:1"])]
)
def test_a_request_that_finds_an_expired_holder_admits_the_others(
    bare: BareFile, asking: str, told: list[str]
) -> None:
    bare.enter("dead", ttl=1.0)
    for id, ttl in (("a", 30.0), ("b", 5.0), ("c", 30.0)):
        bare.enter(id, READING, ttl=ttl)
    bare.enter("writer")
    bare.now += 2
    answer = bare.enter(asking)
    assert [wake.address for wake in bare.operations.wake_ups] == told, (
        "the asking ticket has its answer"
    )
    first = answer.recheck if asking == "writer" else bare.enter("writer").recheck
    assert first == pytest.approx(3.0), "the first of the holders expires then"


def test_a_waiter_admitted_because_another_left_gets_one_message(
    bare: BareFile,
) -> None:
    bare.enter("reader", READING)
    bare.enter("writer")
    for late in ("a", "b"):
        bare.enter(late, READING)
    bare.enter("next writer")
    assert bare.leave("writer")
    wakes = [(wake.address, wake.admitted) for wake in bare.operations.wake_ups]
    assert wakes == [("a:1", True), ("b:1", True)]


def test_a_waiter_that_leaves_makes_the_ticket_behind_it_look_again(bare: BareFile) -> None:
    bare.enter("holder", ttl=5.0)
    bare.enter("impatient", ttl=60.0)
    assert bare.enter("last").recheck == pytest.approx(60.0)
    assert bare.leave("impatient")
    assert [(wake.address, wake.admitted) for wake in bare.operations.wake_ups] == [
        ("last:1", False)
    ]
    assert bare.enter("last").recheck == pytest.approx(5.0)


def test_the_work_does_not_grow_with_the_queue(bare: BareFile) -> None:
    work = {}
    for waiting in (2, 50, 500):
        name = f"crowd of {waiting}"
        bare.enter("holder", name=name)
        for number in range(waiting):
            bare.enter(f"w{number}", name=name)
        bare.operations.wake_ups.clear()
        with instructions(bare.connection) as spent:
            bare.leave("holder", name=name)
            bare.enter("newcomer", name=name)
            bare.do(bare.operations.renew, [Ticket(name, f"w{waiting // 2}", 30.0, OWNER)])
            bare.leave(f"w{waiting - 1}", name=name)
        work[waiting] = len(spent)
        assert [wake.address for wake in bare.operations.wake_ups] == ["w0:1", "newcomer:1"]
    assert len(set(work.values())) == 1, f"instructions of SQLite's machine: {work}"


@pytest.mark.parametrize("share", [READING, Share.of(4)])
def test_sharing_costs_the_same_however_many_wait(bare: BareFile, share: Share) -> None:
    work = {}
    for waiting in (2, 50, 500):
        name = f"crowd of {waiting}"
        for number in range(3):
            bare.enter(f"h{number}", share, name=name)
        bare.enter("w0", name=name)
        for number in range(1, waiting):
            bare.enter(f"w{number}", share, name=name)
        bare.operations.wake_ups.clear()
        with instructions(bare.connection) as spent:
            bare.leave("h0", name=name)
            bare.enter("newcomer", share, name=name)
            bare.do(bare.operations.renew, [Ticket(name, f"w{waiting // 2}", 30.0, OWNER, share)])
            bare.do(bare.operations.renew, [Ticket(name, "h1", 30.0, OWNER, share)])
            bare.leave("newcomer", name=name)
        work[waiting] = len(spent)
        assert bare.operations.wake_ups == []
    assert len(set(work.values())) == 1, f"instructions of SQLite's machine: {work}"


STATEMENTS = ["look", "group", "member", "members", "find", "ahead", "behind", "share", "extend"]
STATEMENTS += ["redirect", "admit", "remove", "clear", "give_back", "renew_uncontended"]
STATEMENTS += ["copy_name_ticket", "clear_name_ticket", "soonest"]


def test_renewing_many_of_a_crowd_costs_each_the_same(bare: BareFile) -> None:
    work = {}
    for size in (10, 100):
        name = f"crowd of {size}"
        tickets = [Ticket(name, f"t{number}", 30.0, OWNER, READING) for number in range(size)]
        for ticket in tickets:
            bare.enter(ticket.id, READING, name=name)
        with instructions(bare.connection) as spent:
            assert all(
                one.place is Place.ADMITTED for one in bare.do(bare.operations.renew, tickets)
            )
        work[size] = len(spent) / size
    assert work[100] <= work[10]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_search_and_never_scan(bare: BareFile, statement: str) -> None:
    sql = "EXPLAIN QUERY PLAN " + SQL[statement]
    arguments = [None] * max(int(number) for number in re.findall(r"\?(\d)", sql))
    plan = [row[3] for row in bare.connection.execute(sql, arguments)]
    plan = [line for line in plan if not line.startswith("SCALAR SUBQUERY")]
    assert plan
    assert all(line.startswith("SEARCH queue USING") for line in plan)
    assert ("INDEX waiting" in plan[0]) == (statement == "find")


@pytest.mark.parametrize(("share", "entering", "leaving"), [(ALONE, 1, 1), (READING, 1, 1)])
def test_a_free_lock_costs_one_page(
    bare: BareFile, share: Share, entering: int, leaving: int
) -> None:
    with executed(bare.operations) as seen:
        bare.enter("first", share)
    assert len(seen) == entering, "though the name is new"
    bare.leave("first")
    log = Path(bare.path + "-wal")
    page = int(bare.connection.execute("PRAGMA page_size").get) + 24
    enter, leave = partial(bare.enter, "second", share), partial(bare.leave, "second")
    for act, statements in ((enter, entering), (leave, leaving)):
        before = log.stat().st_size
        with executed(bare.operations) as seen:
            act()
        assert log.stat().st_size - before == page
        assert len(seen) == statements, seen


def test_names_that_are_not_used_are_forgotten(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(operations, "random", random.Random(42).random)
    most = 0
    for number in range(5_000):
        bare.enter("t", name=f"order:{number}")
        bare.leave("t", name=f"order:{number}")
        most = max(most, bare.rows())
    assert most < 1_000


def test_names_in_use_or_abandoned_are_remembered(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
    bare.enter("t", name="held")
    bare.enter("t", name="abandoned")
    bare.do(bare.operations.evict, "abandoned")
    bare.enter("t", name="released")
    bare.leave("t", name="released")
    bare.do(bare.operations.sweep, operations.now_us())
    known = {name for (name,) in bare.connection.execute("SELECT name FROM queue")}
    assert known == {"held", "abandoned"}
    assert bare.enter("u", name="abandoned").abandoned


def test_dead_tickets_that_nobody_asks_about_are_taken_out(bare: BareFile) -> None:
    for number in range(100):
        bare.enter("dead", name=f"job:{number}", ttl=1.0)
        bare.enter("dead too", name=f"job:{number}", ttl=1.0)
    bare.now += 2
    bare.do(bare.operations.sweep, operations.now_us())
    assert bare.connection.execute("SELECT count(*) FROM queue WHERE fence > 0").get == 0
    assert bare.do(bare.operations.inspect, "job:1", 0).abandoned


def test_a_sweep_goes_on_where_the_last_one_ended(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(operations, "_SWEEP_NAMES", 10)
    for number in range(30):
        bare.enter("t", name=f"held:{number}")
    bare.enter("t", name="z")
    bare.leave("t", name="z")
    for _ in range(4):
        assert bare.do(bare.operations.inspect, "z", 0).fence
        bare.do(bare.operations.sweep, operations.now_us())
    assert not bare.do(bare.operations.inspect, "z", 0).fence


@pytest.mark.parametrize("forget", [False, True])
def test_fences_grow_though_the_clock_is_set_back(
    bare: BareFile, monkeypatch: pytest.MonkeyPatch, forget: bool
) -> None:
    first = bare.enter("a").fence
    bare.leave("a")
    if forget:
        monkeypatch.setattr(operations, "FORGET_RELEASED_US", 0)
        bare.do(bare.operations.sweep, operations.now_us())
        assert bare.rows() == 0
    monkeypatch.setattr("time.time_ns", lambda: 1_000)
    assert bare.enter("b").fence == first + 1
    if forget:  # and what is forgotten later takes nothing away
        bare.connection.execute(
            "INSERT INTO queue (name, fence, newest, abandoned) VALUES ('old', 0, 5, 0)"
        )
        bare.do(bare.operations.sweep, operations.now_us())
        assert bare.enter("t", name="old").fence > first


def test_the_tickets_of_another_boot_are_dead(bare: BareFile) -> None:
    bare.do(bare.operations.start_boot, "this boot")
    held = bare.enter("holder", ttl=1e6).fence
    bare.enter("waiting", ttl=1e6)
    bare.do(bare.operations.start_boot, "this boot")
    assert bare.enter("holder").fence == held
    bare.now = 10.0  # the clock starts anew
    bare.do(bare.operations.start_boot, "the next boot")
    assert bare.do(bare.operations.names, "*") == []
    heir = bare.enter("heir", if_free=True)
    assert (heir.place, heir.abandoned) == (Place.ADMITTED, True)
    assert heir.fence > held


def test_without_a_boot_id_the_clock_tells_another_boot(bare: BareFile) -> None:
    bare.enter("holder", name="old", ttl=1e6)
    bare.now = 10.0  # it starts anew at every boot
    bare.enter("early", name="old")
    fresh = bare.enter("holder", name="new", ttl=1e6)
    bare.do(bare.operations.start_boot, "")
    assert bare.enter("heir", name="old").place is Place.WAITING
    early = bare.enter("early", name="old")
    assert (early.place, early.abandoned) == (Place.ADMITTED, True)
    assert bare.enter("holder", name="new", ttl=1.0).fence == fresh.fence


def test_the_documentation_shows_the_schema() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/engines/sqlite.md").read_text()
    (shown,) = re.findall(r"^```sql\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert shown in (root / "src/fencelock/engines/sqlite/schema.sql").read_text()


def test_a_file_knows_its_format(bare: BareFile) -> None:
    assert bare.connection.pragma("application_id") == 0x484F4C44
    assert bare.connection.pragma("journal_mode") == "wal"
    assert apsw.sqlite_lib_version() >= "3.51.3", "older ones can corrupt a WAL file"
