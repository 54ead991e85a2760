"""A bare for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock.engines.sqlite import operations
from tests.engines.sqlite.bare_file import BareFile


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[BareFile]:
    bare = BareFile(tmp_path)
    monkeypatch.setattr(operations, "random", lambda: 1.0)  # sweep only when told to
    monkeypatch.setattr(operations, "now_us", lambda: round(bare.now * 1e6))
    yield bare
    bare.connection.close()
