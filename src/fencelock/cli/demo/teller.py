"""One of two tellers of the demo's last scene: a process of its own that pays money into two accounts.

Both accounts hold the same, but only one of them is guarded. What it has to say goes to stdout as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys

from fencelock.cli.prctl import die_with_parent
from fencelock.client import Client
from fencelock.core.errors import LeaseLost, StaleFence
from fencelock.guards.files import FencedFile

NAME = "account:7"


def main(
    url: str, plain: str, guarded: str, amount: str, ttl: str, parent: str, stops: str = ""
) -> None:
    """Pay in, under the lock; if told so, be stopped at the worst moment."""
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is the director who decides what follows
    logging.getLogger("fencelock").addHandler(logging.NullHandler())
    account = FencedFile(guarded)
    refused = ""
    with Client(url, ttl=float(ttl)) as client:
        lease = client.lock(NAME, guard=account).acquire()
        balances = [int(FencedFile(path).read()) for path in (plain, guarded)]
        if stops:
            # Before the first renewal, so that nobody finds the lock file in the middle of something.
            os.kill(os.getpid(), signal.SIGSTOP)
        with open(plain, "w") as file:
            file.write(str(balances[0] + int(amount)))
        try:
            account.write(str(balances[1] + int(amount)).encode(), lease)
        except StaleFence as error:
            refused = f"fence {error.given} was refused, {error.newest} had been there"
        try:
            lease.release()
        except LeaseLost:
            assert stops, "only one that was stopped can be late"
    print(json.dumps({"fence": lease.fence, "refused": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
