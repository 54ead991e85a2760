"""The clock that leases are measured with."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial

now: Callable[[], float]
"""Seconds on a clock that never jumps. Looked at a dozen times per lock, hence no function of ours."""

if sys.platform == "linux":
    # The monotonic clock stands still while the machine sleeps; a lease does not.
    now = partial(time.clock_gettime, time.CLOCK_BOOTTIME)
else:
    now = time.monotonic
