"""The clock that leases are measured with."""

from __future__ import annotations

import sys
import time

if sys.platform == "linux":
    # The monotonic clock stands still while the machine sleeps; a lease does not.
    def now(_clock: int = time.CLOCK_BOOTTIME) -> float:
        """Seconds since boot, sleep included."""
        return time.clock_gettime(_clock)
else:
    now = time.monotonic
