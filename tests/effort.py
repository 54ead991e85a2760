"""How much a test does: as little as proves something in `./test`, much more in `./soak`."""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

SOAKING = "FENCELOCK_SOAK" in os.environ
"""Set by `./soak` for all that it starts."""


only_in_soaks = pytest.mark.skipif(not SOAKING, reason="only in ./soak")
"""For one more of what the suite has tried already."""


def effort(usual: T, soaking: T) -> T:
    """The number of examples, leases, waiters… in this run: `effort(60, 1_000)`."""
    return soaking if SOAKING else usual
