"""The short version of `python -m tests.engines.redlock.soak`."""

from pathlib import Path

import pytest

from tests.engines.redlock.soak import soak
from tests.servers_redlock import RedlockSet


@pytest.mark.slow
def test_nodes_fail_in_turn(nodes: RedlockSet, tmp_path: Path) -> None:
    soak(nodes, tmp_path, seconds=3, workers=2).check()
