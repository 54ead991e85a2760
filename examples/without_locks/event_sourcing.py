"""Two people withdraw 70 from an account with 100. The account is a list of events that only grows.

Nobody changes a balance: a withdrawal is a new event, and the balance is the sum of the events. But to
append is not enough. Both people see 100, and both append. The cure is to append *with the expected
version*: "this is event 2, if event 1 is still the last one". The second person is refused, reads the new
event, and decides anew.

It costs: a popular stream makes its writers try again and again; and old events have to be understood for
ever.

Run it: python examples/without_locks/event_sourcing.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Barrier

CREATE = """CREATE TABLE events (
    stream TEXT, version INTEGER, cents INTEGER, PRIMARY KEY (stream, version)
)"""
APPEND = "INSERT INTO events VALUES ('account:7', ?, ?)"
APPEND_ANYWHERE = """INSERT INTO events
    SELECT 'account:7', max(version) + 1, ? FROM events WHERE stream = 'account:7'"""


def withdraw(file: Path, cents: int, together: Barrier, *, expected_version: bool) -> str:
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as events:
        first = True
        while True:
            version, balance = events.execute(
                "SELECT max(version), sum(cents) FROM events WHERE stream = 'account:7'"
            ).fetchone()
            if first:
                together.wait(timeout=30)  # the worst moment: both have read the same events
                first = False
            if balance < cents:
                return "refused"
            try:
                if expected_version:
                    events.execute(APPEND, (version + 1, -cents))
                else:
                    events.execute(APPEND_ANYWHERE, (-cents,))
                return "paid"
            except sqlite3.IntegrityError:
                continue  # somebody was faster: read what happened, and decide anew


def story(file: Path, *, expected_version: bool) -> str:
    with closing(sqlite3.connect(file, isolation_level=None)) as events:
        events.execute(CREATE)
        events.execute(APPEND, (1, 100))
        together = Barrier(2)
        with ThreadPoolExecutor(2) as people:
            asked = [
                people.submit(withdraw, file, 70, together, expected_version=expected_version)
                for _ in range(2)
            ]
        answers = sorted(each.result() for each in asked)
        (balance,) = events.execute("SELECT sum(cents) FROM events").fetchone()
    return f"{' and '.join(answers)}, balance {balance}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("append:               ", story(Path(folder) / "one.db", expected_version=False))
        print("with expected version:", story(Path(folder) / "two.db", expected_version=True))
