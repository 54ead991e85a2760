"""A bench for one test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencelock.engines.sqlite import queue
from tests.engines.sqlite.bench import Bench


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    monkeypatch.setattr(queue, "random", lambda: 1.0)  # sweep only when told to
    monkeypatch.setattr(queue, "now_us", lambda: round(bench.now * 1e6))
    yield bench
    bench.connection.close()
