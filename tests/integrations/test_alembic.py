"""Alembic with the `env.py` of the page."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fencelock
from tests.integrations.pages import tables, write_files
from tests.waiting import PATIENCE, eventually

MIGRATION = """
from alembic import op
revision, down_revision = "1", None
def upgrade():
    op.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
"""


def test_an_upgrade_waits_for_its_turn(tmp_path: Path) -> None:
    from alembic import command  # slow to import, and each worker of a run imports this file
    from alembic.config import Config

    url = f"sqlite:///{tmp_path}/locks.db"
    write_files("sqlalchemy.md", tmp_path, redis=url)
    (tmp_path / "migrations" / "versions").mkdir()
    (tmp_path / "migrations" / "versions" / "1.py").write_text(MIGRATION)
    config = Config()
    config.set_main_option("script_location", str(tmp_path / "migrations"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("sqlalchemy.url", f"sqlite:///{tmp_path}/site.db")

    with fencelock.Client(url) as locks, ThreadPoolExecutor(1) as pool:
        lease = locks.lock("alembic").acquire()
        waiting = pool.submit(command.upgrade, config, "head")
        eventually(lambda: locks.inspect("alembic").waiting or waiting.done(), "it to wait")
        assert not waiting.done(), waiting.result()
        assert "orders" not in tables(tmp_path / "site.db")
        lease.release()
        waiting.result(PATIENCE)
        assert "orders" in tables(tmp_path / "site.db")
        with locks.lock("alembic", timeout=0) as lease:
            assert not lease.abandoned
