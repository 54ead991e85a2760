"""MariaDB: a pair without contention, and how fast a lock changes hands."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.adapters.limits.mysql_getlock import GetLock
from benchmarks.adapters.limits.mysql_updates import MysqlUpdates
from benchmarks.adapters.ours import Fencelock, FencelockSession
from benchmarks.adapters.rivals.tooz import Tooz
from benchmarks.crew import Crew
from benchmarks.hand_offs import Contest, measure
from benchmarks.pairs import measure_pairs
from benchmarks.rounds import Table
from benchmarks.setting import Setting, scenario

PAIR = (Fencelock, MysqlUpdates, GetLock, Tooz)
SESSION = (FencelockSession, Tooz, GetLock)
HAND_OFF = (Fencelock, Tooz, GetLock)
GOALS = {MysqlUpdates.label: 0.77, Tooz.label: 1.0}


@scenario("mysql-pair")
def mysql_pair(setting: Setting) -> Iterator[Table]:
    rounds, pairs = setting.rounds(25, 5), setting.rounds(100, 30)
    for durable in (True, False):
        url, notes = setting.mysql(durable=durable).url, list[str]()
        samples = measure_pairs(PAIR, url, notes, rounds=rounds, pairs=pairs)
        title = f"MariaDB pair, {'durable' if durable else 'not flushed at commit'}"
        yield Table(title, "µs", "lower", samples, GOALS, notes)
    url, notes = setting.mysql(durable=False).url, []
    samples = measure_pairs(SESSION, url, notes, rounds=rounds, pairs=pairs)
    yield Table("MariaDB pair, session lock", "µs", "lower", samples, {Tooz.label: 2.0}, notes)


@scenario("mysql-hand-off")
def mysql_hand_off(setting: Setting) -> Iterator[Table]:
    url = setting.mysql(durable=False).url
    with Crew(32) as crew:
        for pace, size in setting.contests(setting.seconds(1, 0.5)):
            contest = Contest("MariaDB", url, HAND_OFF, size, pace)
            chart = "" if pace.hold else "mysql-hand-off"
            goals = {Tooz.label: 10.0}
            yield measure(contest, crew, setting.rounds(5, 2), goals, chart=chart)


@scenario("mysql-bloat")
def mysql_bloat(setting: Setting) -> Iterator[Table]:
    """How large the table is after many pairs on one name."""
    server = setting.mysql(durable=False)
    pairs = setting.rounds(100_000, 2_000)
    turns = Fencelock(server.url, "bloat")
    sizes: list[float] = []
    for _ in range(10):
        for _ in range(pairs // 10):
            turns.acquire()
            turns.release()
        sizes.append((server.data / "locks" / "fencelock_names.ibd").stat().st_size / 1024)
    turns.close()
    note = f"after each tenth of {pairs:,} pairs: {', '.join(f'{size:.0f}' for size in sizes)} KiB"
    yield Table("MariaDB table size", "KiB", "lower", {Fencelock.label: sizes}, {}, [note])
