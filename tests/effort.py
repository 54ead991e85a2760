"""How much a test does: as little as proves something in `./test`, much more in `./soak`."""

import os
from typing import TypeVar

T = TypeVar("T")

SOAKING = "FENCELOCK_SOAK" in os.environ
"""Set by `./soak` for all that it starts."""


def effort(usual: T, soaking: T) -> T:
    """The number of examples, leases, waiters… in this run: `effort(60, 1_000)`."""
    return soaking if SOAKING else usual
