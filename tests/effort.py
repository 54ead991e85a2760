"""How much a test does: in `./test` as little as proves something, in `./soak` much more."""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

SOAKING = "FENCELOCK_SOAK" in os.environ
"""`./soak` sets it for all its processes."""


only_in_soaks = pytest.mark.skipif(not SOAKING, reason="only in ./soak")
"""For another variant of what the suite tests already."""


def effort(usual: T, soaking: T) -> T:
    """Return the number of examples, leases, waiters… for this run: `effort(60, 1_000)`."""
    return soaking if SOAKING else usual
