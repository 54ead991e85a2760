"""What a guard costs: one small transaction in PostgreSQL, with a guard and without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import psycopg

from benchmarks.rounds import Table, interleave, median_us
from benchmarks.setting import Setting, scenario
from fencelock.guards import SqlGuard


class Stamp(NamedTuple):
    """The part of a lease that a guard uses."""

    name: str
    fence: int
    id: str


@scenario("guards")
def guards(setting: Setting) -> Iterator[Table]:
    for durable in (True, False):
        url = setting.postgresql(durable=durable).url
        rounds, times = setting.rounds(25, 5), setting.rounds(100, 30)
        with psycopg.connect(url) as connection:
            SqlGuard().create(connection)
            connection.execute("CREATE TABLE IF NOT EXISTS guarded (id int PRIMARY KEY, value int)")
            connection.execute("INSERT INTO guarded VALUES (1, 0) ON CONFLICT DO NOTHING")
            connection.commit()
            contestants = {
                "guarded": _transaction(connection, guarded=True),
                "unguarded": _transaction(connection, guarded=False),
            }
            measured = {label: _measured(act, times) for label, act in contestants.items()}
            samples = interleave(measured, rounds, [])
        title = f"PostgreSQL transaction, {'durable' if durable else 'fsync off'}"
        yield Table(title, "µs", "lower", samples)


def _measured(act: Callable[[], None], times: int) -> Callable[[], float]:
    return lambda: median_us(act, times)


def _transaction(
    connection: psycopg.Connection[tuple[object, ...]], *, guarded: bool
) -> Callable[[], None]:
    """Begin, check if there is a guard, write a row, commit: each time as the same holder."""
    guard, stamp = SqlGuard(), Stamp("order:42", 33, "a secret")

    def act() -> None:
        with connection.transaction():
            if guarded:
                guard.check(connection, stamp)
            connection.execute("UPDATE guarded SET value = value + 1 WHERE id = 1")

    return act
