"""A short version of the soak: each way to harm a replica, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.soak import soak


@pytest.mark.slow
def test_every_acknowledged_increment_is_there(redis_url: str, tmp_path: Path) -> None:
    outcome = soak(redis_url, tmp_path, seconds=0, processes=3)
    assert outcome.good, outcome
