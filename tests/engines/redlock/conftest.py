"""Fixtures for what only Redlock does."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.engines.redlock.calling import Caller, OpenCaller
from tests.servers_redlock import RedlockSet


class StartNodes(Protocol):
    """What the fixture `start_nodes` is: call it for private nodes with these settings."""

    def __call__(self, **settings: Any) -> RedlockSet: ...


@pytest.fixture
def start_nodes(tmp_path: Path) -> Iterator[StartNodes]:
    with ExitStack() as running:

        def start(**settings: Any) -> RedlockSet:
            return running.enter_context(RedlockSet(tmp_path / "redlock", **settings))

        yield start


@pytest.fixture
def nodes(redlock_private: RedlockSet) -> RedlockSet:
    """Five private nodes that keep nothing on disk, to be killed, frozen and emptied."""
    return redlock_private


@pytest.fixture
def open_caller() -> Iterator[OpenCaller]:
    """Calls the scripts at a URL: `open_caller(server.url)`."""
    with ExitStack() as running:
        yield lambda url: running.enter_context(closing(Caller(url)))
