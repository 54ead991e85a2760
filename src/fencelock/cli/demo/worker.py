"""One worker of the demo, a process of its own: it takes turns on the lock, and reports what it does.

The reports go to stdout, one JSON object per line. Each moment in a report is read before the lease is
checked. So the report is true even if the process is stopped in between.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time

from fencelock.client import Client
from fencelock.core.errors import LeaseLost
from fencelock.io.clock import now
from fencelock.io.helper_process import die_with_parent, leave_ctrl_c_to_parent
from fencelock.primitives.lock import Lock

NAME = "demo"
TTL = 2.0

WORK = (0.25, 0.45)
"""Shortest and longest turn, in seconds."""
REST = (0.02, 0.15)
"""Shortest and longest pause between two turns, in seconds."""
SLICE = 0.02
"""Seconds of work between two calls of `lease.check()`."""


def main(url: str, label: str, parent: str) -> None:
    """Take turns until stdin is closed: by the demo, or because the demo is gone."""
    die_with_parent(int(parent))
    leave_ctrl_c_to_parent()
    closed = threading.Thread(target=sys.stdin.read, daemon=True)
    closed.start()
    with Client(url, label=label, ttl=TTL) as client:
        lock = client.lock(NAME)
        _report("ready", now())
        while closed.is_alive():
            _turn(lock)
            time.sleep(random.uniform(*REST))
    _report("ends", now())


def _turn(lock: Lock) -> None:
    _report("asks", now())
    lease = lock.acquire()
    sure = now()  # the last moment at which the lease was valid for sure
    _report("enters", sure, fence=lease.fence, abandoned=lease.abandoned)
    try:
        lease.check()
        end = sure + random.uniform(*WORK)
        while sure < end:
            time.sleep(SLICE)  # here it would do a part of its work…
            at = now()
            lease.check()  # …and make sure that it may go on
            sure = at
        lease.release()
    except LeaseLost as error:
        _report("lost", now(), fence=lease.fence, sure=sure, reason=error.reason)
    else:
        _report("leaves", sure, fence=lease.fence)


def _report(event: str, at: float, **details: float | bool | str) -> None:
    print(json.dumps({"event": event, "at": at, **details}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
