"""One worker of the demo, a process of its own: takes turns on the lock and keeps a journal.

The journal goes to stdout, one JSON object per line. The times in it are read before the lease is
checked, so that what it says about them was true whenever the process was stopped in between.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import threading
import time

from fencelock.cli.prctl import die_with_parent
from fencelock.client import Client
from fencelock.core.errors import LeaseLost
from fencelock.io.clock import now
from fencelock.primitives.lock import Lock

WORK = (0.25, 0.45)
REST = (0.02, 0.15)
SLICE = 0.02


def main(url: str, name: str, label: str, ttl: str, parent: str) -> None:
    """Take turns until told to stop."""
    die_with_parent(int(parent))
    # Ctrl-C reaches everyone at this terminal; it is the director who decides what follows.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    stop = threading.Event()
    threading.Thread(target=_obey, args=(stop,), daemon=True).start()
    with Client(url, label=label, ttl=float(ttl)) as client:
        lock = client.lock(name)
        _note("ready")
        while not stop.is_set():
            _turn(lock)
            time.sleep(random.uniform(*REST))
    _note("left")


def _turn(lock: Lock) -> None:
    _note("asks", at=now())
    lease = lock.acquire()
    sure = now()  # the last moment at which the lease was good for sure
    _note("enters", at=sure, fence=lease.fence, abandoned=lease.abandoned)
    try:
        lease.check()
        end = sure + random.uniform(*WORK)
        while sure < end:
            time.sleep(SLICE)  # here it would do a bit of its work…
            at = now()
            lease.check()  # …and make sure that it may go on
            sure = at
        lease.release()
    except LeaseLost as error:
        _note("lost", at=now(), fence=lease.fence, sure=sure, reason=error.reason)
    else:
        _note("leaves", at=sure, fence=lease.fence)


def _note(event: str, **details: float | bool | str) -> None:
    sys.stdout.write(json.dumps({"event": event, **details}) + "\n")
    sys.stdout.flush()


def _obey(stop: threading.Event) -> None:
    if not sys.stdin.readline():
        os._exit(1)  # the director is gone
    stop.set()


if __name__ == "__main__":
    main(*sys.argv[1:])
