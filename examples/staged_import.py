"""An import in stages, which begins no stage that it has no time to end. The next run goes on from there.

Before each stage, `lease.check(at_least=…)` asks whether enough of the lease is left. Here `max_hold` bounds
the whole run, so that the next job is not kept waiting. The engine may be away just as well: then the lease
is not renewed, and the time that is left goes down to nothing.

Run it: python examples/staged_import.py
"""

import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import fencelock


def work() -> None:
    """Stands for a stage that may take all of its time."""


# What to do, and how many seconds that takes at the most.
STAGES: list[tuple[str, float, Callable[[], None]]] = [
    ("download", 10, work),
    ("convert", 20, work),
    ("publish", 60, work),
]


def run(client: fencelock.Client, books: sqlite3.Connection, max_hold: float) -> None:
    """Do the stages that are left, as far as the time goes."""
    done = {name for (name,) in books.execute("SELECT stage FROM done")}
    with client.lock("import", ttl=90, max_hold=max_hold) as lease:
        for name, seconds, stage in STAGES:
            if name in done:
                continue
            lease.check(at_least=seconds)
            stage()
            lease.confirm()  # the engine's own word, before it counts as done
            with books:
                books.execute("INSERT INTO done VALUES (?)", [name])
            print(f"{name}: done")


def main(folder: Path) -> None:
    books = sqlite3.connect(folder / "books.db")
    books.execute("CREATE TABLE done (stage TEXT UNIQUE)")
    with fencelock.Client(f"sqlite:///{folder}/locks.db") as client:
        try:
            run(client, books, max_hold=50)
        except fencelock.LeaseLost as error:
            print(f"stopped: {error.reason}")
        run(client, books, max_hold=3600)
    books.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
