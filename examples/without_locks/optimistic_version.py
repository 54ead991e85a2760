"""Four editors add a line to the same page at the same moment. A version number keeps all four lines.

Each editor reads the page, adds a line, and writes the page. Without a check, the last editor wins and the
other lines are gone. The cure is a version that each write must name: `UPDATE … WHERE version = 7`. If no
row was changed, another editor was faster: read the page again, and add the line to the new text.

It costs: work that is done again. With many writers on one row, most of the work is wasted.

Run it: python examples/without_locks/optimistic_version.py
"""

import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

EDITORS = ("ada", "bob", "cy", "dan")


def last_editor_wins(file: Path, together: Barrier, editor: str) -> int:
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as wiki:
        (text,) = wiki.execute("SELECT text FROM page").fetchone()
        together.wait(timeout=30)  # the worst moment: all have read the same page
        wiki.execute("UPDATE page SET text = ?", (f"{text}{editor}\n",))
        return 1


def with_a_version(file: Path, together: Barrier, editor: str) -> int:
    """Returns how often the editor had to try."""
    change = "UPDATE page SET text = ?, version = version + 1 WHERE version = ?"
    attempts = 0
    with closing(sqlite3.connect(file, timeout=60, isolation_level=None)) as wiki:
        while True:
            text, version = wiki.execute("SELECT text, version FROM page").fetchone()
            attempts += 1
            if attempts == 1:
                together.wait(timeout=30)
            if wiki.execute(change, (f"{text}{editor}\n", version)).rowcount == 1:
                return attempts


def day(file: Path, *, versions: bool) -> str:
    edit = with_a_version if versions else last_editor_wins
    with closing(sqlite3.connect(file, isolation_level=None)) as wiki:
        wiki.execute("CREATE TABLE page (text TEXT, version INTEGER)")
        wiki.execute("INSERT INTO page VALUES ('', 1)")
        with ThreadPoolExecutor(len(EDITORS)) as editors:
            attempts = sum(editors.map(partial(edit, file, Barrier(len(EDITORS))), EDITORS))
        (text,) = wiki.execute("SELECT text FROM page").fetchone()
    return f"{len(text.splitlines())} of {len(EDITORS)} lines are there, after {attempts} attempts"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print("last editor wins:", day(Path(folder) / "one.db", versions=False))
        print("with a version:  ", day(Path(folder) / "two.db", versions=True))
