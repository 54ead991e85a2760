"""A process of the demo that pays money into two accounts, one with a guard and one without.

It prints the answer of the guard to stdout, as JSON.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from fencelock.cli.processes import die_with_parent, leave_ctrl_c_to_parent
from fencelock.client import Client
from fencelock.core.errors import LeaseLost, StaleFence
from fencelock.guards.files import FencedFile

NAME = "account:7"


def main(
    url: str, plain: str, guarded: str, amount: str, ttl: str, parent: str, stops: str = ""
) -> None:
    """Pay in, under the lock. With `stops`, stop at the worst moment: between reading and writing."""
    die_with_parent(int(parent))
    leave_ctrl_c_to_parent()
    account = FencedFile(guarded)
    refused = ""
    with Client(url, ttl=float(ttl)) as client:
        lease = client.lock(NAME, guard=account).acquire()
        balances = [int(FencedFile(path).read()) for path in (plain, guarded)]
        if stops:
            # Before the first renewal, so that no transaction on the lock file is left open.
            os.kill(os.getpid(), signal.SIGSTOP)
        with open(plain, "w") as file:
            file.write(str(balances[0] + int(amount)))
        try:
            account.write(str(balances[1] + int(amount)).encode(), lease)
        except StaleFence as error:
            refused = f"the guard refused fence {error.given}"
        try:
            lease.release()
        except LeaseLost:
            assert stops, "only a process that was stopped can be late"
    print(json.dumps({"refused": refused}))


if __name__ == "__main__":
    main(*sys.argv[1:])
