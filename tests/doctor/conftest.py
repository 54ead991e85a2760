"""Fixtures for all tests of the doctor."""

import pytest

from fencelock.engines import diagnosis


@pytest.fixture
def few_round_trips(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that are not about the measuring: it takes most of the time of an examination."""
    monkeypatch.setattr(diagnosis, "_MOST", 5)
