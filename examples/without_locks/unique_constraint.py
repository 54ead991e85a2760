"""Four people book the same seat at the same moment. A constraint lets one of them have it, without a lock.

A program that looks whether the seat is free, and then books it, books it four times. The cure is to state
the rule where the data is: a show has each seat once. The database then refuses all bookings but the first,
also those of a program that forgets to look.

Run it: python examples/without_locks/unique_constraint.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

PEOPLE = ("ada", "bob", "cy", "dan")


def book(file: Path, together: Barrier, person: str) -> str:
    """Look first, to be polite; then book. Returns what the person is told."""
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as bookings:
        taken = bookings.execute("SELECT 1 FROM seats WHERE seat = '12A'").fetchone()
        together.wait(timeout=30)  # the worst moment: all have looked, and nobody has booked
        if taken:
            return "taken"
        try:
            bookings.execute("INSERT INTO seats VALUES ('friday', '12A', ?)", (person,))
        except sqlite3.IntegrityError:
            return "taken"
        return "booked"


def evening(file: Path, rule: str) -> str:
    with closing(sqlite3.connect(file)) as bookings:
        bookings.execute(f"CREATE TABLE seats (show TEXT, seat TEXT, person TEXT{rule})")
    with ThreadPoolExecutor(len(PEOPLE)) as people:
        answers = list(people.map(partial(book, file, Barrier(len(PEOPLE))), PEOPLE))
    return f"{answers.count('booked')} booked, {answers.count('taken')} were told that it is taken"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("look, then book:  ", evening(Path(folder) / "one.db", rule=""))
        rule = ", UNIQUE (show, seat)"
        print("with a constraint:", evening(Path(folder) / "two.db", rule))
