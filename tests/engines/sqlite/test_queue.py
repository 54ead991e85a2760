"""The queue in SQL: as exact as the model although it is lazy, and no dearer when many wait."""

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
from fencelock.engines.sqlite import queue
from fencelock.engines.sqlite.statements import SQL
from tests.effort import effort
from tests.engines.sqlite.bench import NAME, OWNER, Bench, executed, instructions

ACTS = [*["enter"] * 5, "if_free", "renew", "renew all", *["leave"] * 2, "evict", "look", "sweep"]
ACTS += ["remember"]

STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS),
        st.integers(0, 5),
        st.sampled_from([1.0, 2.0, 5.0]),
        st.sampled_from([*[0.0] * 4, 0.001, 0.5, 1.0, 3.0]),
        st.sampled_from([ALONE, ALONE, READING, READING, Share.of(3), Share.of(3, 2)]),
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
    bench, model = Bench(tmp_path), TicketQueue(NAME)
    monkeypatch.setattr(queue, "now_us", lambda: round(bench.now * 1e6))
    fences: dict[int, int] = {0: 0}
    for act, contender, ttl, pause, share, departure in steps:
        bench.now += pause
        ticket = Ticket(NAME, f"t{contender}", ttl, OWNER, share)
        compare(fences, *both(bench, model, act, ticket, departure))
        woken = [wake.fence for wake in bench.queues.wakes if wake.admitted]
        bench.queues.wakes.clear()
        present = {one.ticket.id: one.fence for one in model._entries.values()}
        told = [fences[present[one.id]] for one in model.told() if one.id in present]
        if act.startswith("renew") and ticket.id in present:
            # It may also wake the very ticket that it renews: another thread waits with that.
            woken = [fence for fence in woken if fence != fences[present[ticket.id]]]
        assert woken == told
    ours = [fences[theirs] for theirs in sorted(fences)]
    assert ours == sorted(set(ours)), "fences grow in the order in which they were handed out"
    bench.connection.close()


def both(
    bench: Bench, model: TicketQueue, act: str, ticket: Ticket, departure: Departure
) -> tuple[Any, Any]:
    """The same request to the engine and to the model."""
    queues, now = bench.queues, bench.now
    if act.startswith("renew"):
        ids = [ticket.id, *(f"t{number}" for number in range(6) if act == "renew all")]
        # As its client would: how it shares may be changed by entering again only.
        known = {id: entry.ticket.share for id, entry in model._entries.items()}
        tickets = [ticket._replace(id=id, share=known.get(id, ticket.share)) for id in ids]
        return bench.do(queues.renew, tickets), [model.renew(one, now) for one in tickets]
    if act == "remember":
        ours = bench.do(queues.remember, ticket, "done", 60.0)
        return ours, model.remember(ticket, "done", 60.0, now)
    if act == "leave":
        return bench.request_leave(ticket, departure), model.leave(ticket, now, departure)
    if act == "evict":
        return bench.do(queues.evict, NAME), model.evict(now)
    if act == "sweep":
        bench.do(queues.sweep, round(now * 1e6))
    if act in ("look", "sweep"):
        return bench.do(queues.inspect, NAME, 2), model.inspect(now, 2)
    if_free = act == "if_free"
    ours = bench.request_enter(ticket, if_free)
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


def test_one_admitted_and_evicted_in_one_go_is_not_told_that_it_holds(bench: Bench) -> None:
    bench.enter("dead", ttl=1.0)
    bench.enter("waiting", ttl=30.0)
    bench.now += 2
    assert bench.do(bench.queues.evict, NAME)
    assert [(wake.address, wake.admitted) for wake in bench.queues.wakes] == [("waiting:1", False)]


def test_those_who_share_a_name_admitted_and_evicted_in_one_go(bench: Bench) -> None:
    bench.enter("dead", ttl=1.0)
    for reader in ("a", "b"):
        bench.enter(reader, READING)
    bench.enter("heir")
    bench.now += 2
    assert bench.do(bench.queues.evict, NAME)
    wakes = [(wake.address, wake.admitted) for wake in bench.queues.wakes]
    assert wakes == [("a:1", False), ("b:1", False), ("heir:1", True)]


def test_exactly_those_who_fit_are_let_in(bench: Bench) -> None:
    bench.enter("alone")
    for id, weight in (("a", 2), ("b", 1), ("c", 1), ("d", 1)):
        bench.enter(id, Share.of(3, weight))
    for leaving, told in (("alone", ["a:1", "b:1"]), ("b", ["c:1"]), ("a", ["d:1"])):
        bench.leave(leaving)
        assert [wake.address for wake in bench.queues.wakes if wake.admitted] == told
        bench.queues.wakes.clear()


@pytest.mark.parametrize(
    ("asking", "told"), [("a", ["b:1", "c:1"]), ("writer", ["a:1", "b:1", "c:1"])]
)
def test_who_comes_upon_the_dead_admits_the_others(
    bench: Bench, asking: str, told: list[str]
) -> None:
    bench.enter("dead", ttl=1.0)
    for id, ttl in (("a", 30.0), ("b", 5.0), ("c", 30.0)):
        bench.enter(id, READING, ttl=ttl)
    bench.enter("writer")
    bench.now += 2
    answer = bench.enter(asking)
    assert [wake.address for wake in bench.queues.wakes] == told, "who asks has its answer"
    first = answer.recheck if asking == "writer" else bench.enter("writer").recheck
    assert first == pytest.approx(3.0), "the first of those who hold expires then"


def test_one_who_is_let_in_by_a_waiter_that_leaves_is_told_so_and_nothing_else(
    bench: Bench,
) -> None:
    bench.enter("reader", READING)
    bench.enter("writer")
    for late in ("a", "b"):
        bench.enter(late, READING)
    bench.enter("next writer")
    assert bench.leave("writer")
    wakes = [(wake.address, wake.admitted) for wake in bench.queues.wakes]
    assert wakes == [("a:1", True), ("b:1", True)]


def test_who_leaves_the_queue_makes_the_one_behind_look(bench: Bench) -> None:
    bench.enter("holder", ttl=5.0)
    bench.enter("impatient", ttl=60.0)
    assert bench.enter("last").recheck == pytest.approx(60.0)
    assert bench.leave("impatient")
    assert [(wake.address, wake.admitted) for wake in bench.queues.wakes] == [("last:1", False)]
    assert bench.enter("last").recheck == pytest.approx(5.0)


def test_the_work_does_not_grow_with_the_queue(bench: Bench) -> None:
    work = {}
    for waiting in (2, 50, 500):
        name = f"crowd of {waiting}"
        bench.enter("holder", name=name)
        for number in range(waiting):
            bench.enter(f"w{number}", name=name)
        bench.queues.wakes.clear()
        with instructions(bench.connection) as spent:
            bench.leave("holder", name=name)
            bench.enter("newcomer", name=name)
            bench.do(bench.queues.renew, [Ticket(name, f"w{waiting // 2}", 30.0, OWNER)])
            bench.leave(f"w{waiting - 1}", name=name)
        work[waiting] = len(spent)
        assert [wake.address for wake in bench.queues.wakes] == ["w0:1", "newcomer:1"]
    assert len(set(work.values())) == 1, f"instructions of SQLite's machine: {work}"


@pytest.mark.parametrize("share", [READING, Share.of(4)])
def test_sharing_costs_the_same_however_many_wait(bench: Bench, share: Share) -> None:
    work = {}
    for waiting in (2, 50, 500):
        name = f"crowd of {waiting}"
        for number in range(3):
            bench.enter(f"h{number}", share, name=name)
        bench.enter("w0", name=name)
        for number in range(1, waiting):
            bench.enter(f"w{number}", share, name=name)
        bench.queues.wakes.clear()
        with instructions(bench.connection) as spent:
            bench.leave("h0", name=name)
            bench.enter("newcomer", share, name=name)
            bench.do(bench.queues.renew, [Ticket(name, f"w{waiting // 2}", 30.0, OWNER, share)])
            bench.do(bench.queues.renew, [Ticket(name, "h1", 30.0, OWNER, share)])
            bench.leave("newcomer", name=name)
        work[waiting] = len(spent)
        assert bench.queues.wakes == []
    assert len(set(work.values())) == 1, f"instructions of SQLite's machine: {work}"


STATEMENTS = [
    "look",
    "crowd",
    "sharer",
    "sharers",
    "find",
    "ahead",
    "behind",
    "share",
    "extend",
    "redirect",
]
STATEMENTS += ["admit", "remove", "clear", "give", "prolong", "apart", "vacate"]


def test_renewing_many_of_a_crowd_costs_each_the_same(bench: Bench) -> None:
    work = {}
    for size in (10, 100):
        name = f"crowd of {size}"
        tickets = [Ticket(name, f"t{number}", 30.0, OWNER, READING) for number in range(size)]
        for ticket in tickets:
            bench.enter(ticket.id, READING, name=name)
        with instructions(bench.connection) as spent:
            assert all(one.place is Place.ADMITTED for one in bench.do(bench.queues.renew, tickets))
        work[size] = len(spent) / size
    assert work[100] <= work[10]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_search_and_never_scan(bench: Bench, statement: str) -> None:
    sql = "EXPLAIN QUERY PLAN " + SQL[statement]
    arguments = [None] * max(int(number) for number in re.findall(r"\?(\d)", sql))
    plan = [row[3] for row in bench.connection.execute(sql, arguments)]
    plan = [line for line in plan if not line.startswith("SCALAR SUBQUERY")]
    assert plan
    assert all(line.startswith("SEARCH queue USING") for line in plan)
    assert ("INDEX waiting" in plan[0]) == (statement == "find")


@pytest.mark.parametrize(("share", "entering", "leaving"), [(ALONE, 1, 1), (READING, 1, 1)])
def test_a_free_lock_costs_one_page(
    bench: Bench, share: Share, entering: int, leaving: int
) -> None:
    with executed(bench.queues) as seen:
        bench.enter("first", share)
    assert len(seen) == entering, "though the name is new"
    bench.leave("first")
    log = Path(bench.path + "-wal")
    page = int(bench.connection.execute("PRAGMA page_size").get) + 24
    enter, leave = partial(bench.enter, "second", share), partial(bench.leave, "second")
    for act, statements in ((enter, entering), (leave, leaving)):
        before = log.stat().st_size
        with executed(bench.queues) as seen:
            act()
        assert log.stat().st_size - before == page
        assert len(seen) == statements, seen


def test_names_that_are_not_used_are_forgotten(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(queue, "random", random.Random(42).random)
    most = 0
    for number in range(5_000):
        bench.enter("t", name=f"order:{number}")
        bench.leave("t", name=f"order:{number}")
        most = max(most, bench.rows())
    assert most < 1_000


def test_names_in_use_or_abandoned_are_remembered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FORGET_RELEASED_US", 0)
    bench.enter("t", name="held")
    bench.enter("t", name="abandoned")
    bench.do(bench.queues.evict, "abandoned")
    bench.enter("t", name="released")
    bench.leave("t", name="released")
    bench.do(bench.queues.sweep, queue.now_us())
    known = {name for (name,) in bench.connection.execute("SELECT name FROM queue")}
    assert known == {"held", "abandoned"}
    assert bench.enter("u", name="abandoned").abandoned


def test_dead_tickets_that_nobody_asks_about_are_taken_out(bench: Bench) -> None:
    for number in range(100):
        bench.enter("dead", name=f"job:{number}", ttl=1.0)
        bench.enter("dead too", name=f"job:{number}", ttl=1.0)
    bench.now += 2
    bench.do(bench.queues.sweep, queue.now_us())
    assert bench.connection.execute("SELECT count(*) FROM queue WHERE fence > 0").get == 0
    assert bench.do(bench.queues.inspect, "job:1", 0).abandoned


def test_a_sweep_goes_on_where_the_last_one_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "FORGET_RELEASED_US", 0)
    monkeypatch.setattr(queue, "_SWEEP_NAMES", 10)
    for number in range(30):
        bench.enter("t", name=f"held:{number}")
    bench.enter("t", name="z")
    bench.leave("t", name="z")
    for _ in range(4):
        assert bench.do(bench.queues.inspect, "z", 0).fence
        bench.do(bench.queues.sweep, queue.now_us())
    assert not bench.do(bench.queues.inspect, "z", 0).fence


@pytest.mark.parametrize("forget", [False, True])
def test_fences_grow_though_the_clock_is_set_back(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, forget: bool
) -> None:
    first = bench.enter("a").fence
    bench.leave("a")
    if forget:
        monkeypatch.setattr(queue, "FORGET_RELEASED_US", 0)
        bench.do(bench.queues.sweep, queue.now_us())
        assert bench.rows() == 0
    monkeypatch.setattr("time.time_ns", lambda: 1_000)
    assert bench.enter("b").fence == first + 1
    if forget:  # and what is forgotten later takes nothing away
        bench.connection.execute(
            "INSERT INTO queue (name, fence, newest, abandoned) VALUES ('old', 0, 5, 0)"
        )
        bench.do(bench.queues.sweep, queue.now_us())
        assert bench.enter("t", name="old").fence > first


def test_the_tickets_of_another_boot_are_dead(bench: Bench) -> None:
    bench.do(bench.queues.reboot, "this boot")
    held = bench.enter("holder", ttl=1e6).fence
    bench.enter("waiting", ttl=1e6)
    bench.do(bench.queues.reboot, "this boot")
    assert bench.enter("holder").fence == held
    bench.now = 10.0  # the clock starts anew
    bench.do(bench.queues.reboot, "the next boot")
    assert bench.do(bench.queues.names, "*") == []
    heir = bench.enter("heir", if_free=True)
    assert (heir.place, heir.abandoned) == (Place.ADMITTED, True)
    assert heir.fence > held


def test_without_a_boot_id_the_clock_tells_another_boot(bench: Bench) -> None:
    bench.enter("holder", name="old", ttl=1e6)
    bench.now = 10.0  # it starts anew at every boot
    bench.enter("early", name="old")
    fresh = bench.enter("holder", name="new", ttl=1e6)
    bench.do(bench.queues.reboot, "")
    assert bench.enter("heir", name="old").place is Place.WAITING
    early = bench.enter("early", name="old")
    assert (early.place, early.abandoned) == (Place.ADMITTED, True)
    assert bench.enter("holder", name="new", ttl=1.0).fence == fresh.fence


def test_the_documentation_shows_the_schema() -> None:
    root = Path(__file__).parents[3]
    page = (root / "docs/engines/sqlite.md").read_text()
    (shown,) = re.findall(r"^```sql\n(.*?)```", page, re.MULTILINE | re.DOTALL)
    assert shown in (root / "src/fencelock/engines/sqlite/schema.sql").read_text()


def test_a_file_knows_its_format(bench: Bench) -> None:
    assert bench.connection.pragma("application_id") == 0x484F4C44
    assert bench.connection.pragma("journal_mode") == "wal"
    assert apsw.sqlite_lib_version() >= "3.51.3", "older ones can corrupt a WAL file"
