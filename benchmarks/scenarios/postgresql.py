"""PostgreSQL: a pair without contention, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.limits.postgresql_advisory import Advisory
from benchmarks.adapters.limits.postgresql_updates import PostgresqlUpdates
from benchmarks.adapters.ours import Fencelock, FencelockSession
from benchmarks.adapters.rivals.pals import Pals
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

PAIR = (Fencelock, PostgresqlUpdates, Advisory, Pals, Tooz)
SESSION = (FencelockSession, Pals, Tooz, Advisory)
HAND_OFF = (Fencelock, Pals, Tooz, Advisory)
GOALS = {PostgresqlUpdates.label: 0.77, Pals.label: 2.0, Tooz.label: 2.0}


@scenario("postgresql-pair")
def postgresql_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(100, 30)
    for durable in (True, False):
        url, notes = setting.postgresql(durable=durable).url, list[str]()
        samples = measure_pairs(PAIR, url, notes, rounds=rounds, pairs=pairs)
        title = f"PostgreSQL pair, {'durable' if durable else 'fsync off'}"
        yield Table(title, "µs", "lower", samples, GOALS, notes)
    url, notes = setting.postgresql(durable=False).url, []
    samples = measure_pairs(SESSION, url, notes, rounds=rounds, pairs=pairs)
    yield Table("PostgreSQL pair, session lock", "µs", "lower", samples, {Tooz.label: 2.0}, notes)


@scenario("postgresql-hand-off")
def postgresql_hand_off(setting: Setting) -> Iterator[Table]:
    url, goals = setting.postgresql(durable=False).url, {Pals.label: 1.5, Tooz.label: 1.5}
    with Crew(32) as crew:
        for pace, size in setting.contests(setting.seconds(1, 0.5)):
            contest = Contest("PostgreSQL", url, HAND_OFF, size, pace)
            chart = "" if pace.hold else "postgresql-hand-off"
            yield measure(contest, crew, setting.rounds(5, 2), goals, chart=chart)


@scenario("postgresql-bloat")
def postgresql_bloat(setting: Setting) -> Iterator[Table]:
    """How large the table is after many pairs on one name."""
    server = setting.postgresql(durable=False)
    pairs = setting.rounds(100_000, 2_000)
    turns = Fencelock(server.url, "bloat")
    sizes: list[float] = []
    for _ in range(10):
        for _ in range(pairs // 10):
            turns.acquire()
            turns.release()
        ((size,),) = server.execute("SELECT pg_total_relation_size('fencelock.names')")
        sizes.append(size / 1024)
    turns.close()
    note = f"after each tenth of {pairs:,} pairs: {', '.join(f'{size:.0f}' for size in sizes)} KiB"
    yield Table("PostgreSQL table size", "KiB", "lower", {Fencelock.label: sizes}, {}, [note])
