"""Projects made of the examples in the pages of docs/integrations/."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "integrations"


def write_files(page: str, folder: Path, **replaced: str) -> None:
    """Write every block that begins with the comment `# path/to/file.py` to that file.

    `replaced` is what else to replace in them: `redis="sqlite:///…"` stands for `redis://localhost`.
    """
    text = (PAGES / page).read_text()
    for scheme, url in replaced.items():
        text = text.replace(f"{scheme}://localhost", url)
    blocks = re.findall(r"^```py\n# (\S+\.py)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks, page
    for path, source in blocks:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(source)


def tables(database: Path) -> set[str]:
    """The tables in a SQLite file."""
    with closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
