"""One worker of the demo, a process of its own: it takes turns on the lock, and reports what it does.

The reports go to stdout, one JSON object per line. Each moment in a report is read before the lease is
checked. So the report is true even if the process is stopped in between.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time

from fencelock.cli.processes import die_with_parent, leave_ctrl_c_to_parent
from fencelock.client import Client
from fencelock.core.errors import LeaseLost
from fencelock.io.clock import now
from fencelock.primitives.lock import Lock

WORK = (0.25, 0.45)
"""Shortest and longest turn, in seconds."""
REST = (0.02, 0.15)
"""Shortest and longest pause between two turns, in seconds."""
SLICE = 0.02
"""Seconds of work between two calls of `lease.check()`."""


def main(url: str, name: str, label: str, ttl: str, parent: str) -> None:
    """Take turns until told to stop."""
    die_with_parent(int(parent))
    leave_ctrl_c_to_parent()
    stop = threading.Event()
    threading.Thread(target=_await_stop, args=(stop,), daemon=True).start()
    with Client(url, label=label, ttl=float(ttl)) as client:
        lock = client.lock(name)
        _report("ready")
        while not stop.is_set():
            _turn(lock)
            time.sleep(random.uniform(*REST))
    _report("left")


def _turn(lock: Lock) -> None:
    _report("asks", at=now())
    lease = lock.acquire()
    sure = now()  # the last moment at which the lease was valid for sure
    _report("enters", at=sure, fence=lease.fence, abandoned=lease.abandoned)
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
        _report("lost", at=now(), fence=lease.fence, sure=sure, reason=error.reason)
    else:
        _report("leaves", at=sure, fence=lease.fence)


def _report(event: str, **details: float | bool | str) -> None:
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


def _await_stop(stop: threading.Event) -> None:
    if not sys.stdin.readline():
        os._exit(1)  # the demo is gone
    stop.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
