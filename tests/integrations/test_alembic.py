"""Alembic with the `env.py` of the page."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path

import fencelock
from tests.integrations.pages import write_files
from tests.program import Program
from tests.waiting import eventually

CONFIG = """
[alembic]
script_location = migrations
sqlalchemy.url = sqlite:///site.db
"""
MIGRATION = """
from alembic import op
revision, down_revision = "1", None
def upgrade():
    op.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
"""


def tables(folder: Path) -> set[str]:
    with sqlite3.connect(folder / "site.db") as database:
        return {name for (name,) in database.execute("SELECT name FROM sqlite_master")}


def test_an_upgrade_waits_for_its_turn(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    write_files("sqlalchemy.md", tmp_path, redis=url)
    (tmp_path / "alembic.ini").write_text(CONFIG)
    (tmp_path / "migrations" / "versions").mkdir()
    (tmp_path / "migrations" / "versions" / "1.py").write_text(MIGRATION)
    upgrade = (sys.executable, "-m", "alembic", "upgrade", "head")
    with fencelock.Client(url) as locks:
        lease = locks.lock("alembic").acquire()
        with Program(*upgrade, folder=tmp_path) as waiting:
            eventually(lambda: locks.inspect("alembic").waiting, "the upgrade to wait")
            assert "orders" not in tables(tmp_path)
            lease.release()
            assert waiting.end() == 0, waiting.output
        assert "orders" in tables(tmp_path)
        with locks.lock("alembic", timeout=0) as lease:
            assert not lease.abandoned
