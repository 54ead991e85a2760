"""A process that holds many locks and waits for others, as a program on a machine of the given name.

It is remote-controlled as `tests.child` is: `Child(url, host, program="tests.service.live.worker")`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import fencelock
from tests.child import Session, serve


class Worker(Session):
    """One client, and all leases that it has."""

    def __init__(self, url: str, host: str) -> None:
        here = os.uname()
        as_told = os.uname_result((here.sysname, host, here.release, here.version, here.machine))
        os.uname = lambda: as_told  # what a client calls its machine
        super().__init__("sync", url)
        self._leases: dict[str, fencelock.Lease] = {}
        self._transactions: dict[str, fencelock.Transaction] = {}

    async def do_hold(self, names: list[str], **options: Any) -> Any:
        """Hold these names. Answers with the fences."""
        for name in names:
            self._leases[name] = self._client.lock(name, **options).acquire()
        return [self._leases[name].fence for name in names]

    async def do_share(self, name: str, permits: int, weight: int = 1, **options: Any) -> Any:
        """Hold permits of a semaphore."""
        lock = self._client.semaphore(name, permits, weight=weight, **options)
        self._leases[name] = lock.acquire()
        return self._leases[name].fence

    async def do_read(self, name: str, **options: Any) -> Any:
        """Hold a name together with other readers."""
        self._leases[name] = self._client.rwlock(name, **options).read().acquire()
        return self._leases[name].fence

    async def do_queue(self, name: str, writes: bool = False, **options: Any) -> Any:
        """Wait for a name in the background, and hold it then."""
        make = self._client.rwlock(name, **options).write() if writes else None
        lock = make or self._client.lock(name, **options)

        def wait() -> None:
            self._leases[name] = lock.acquire()

        self._in_background(wait)
        return "waits"

    async def do_free(self, name: str) -> Any:
        self._leases.pop(name).release()
        return "free"

    async def do_work(self, names: list[str], seconds: float, **options: Any) -> Any:
        """Hold each of these names for some seconds, one after the other."""
        for name in names:
            with self._client.lock(name, **options):
                time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs in this program
        return "done"

    async def do_begin(self, name: str, **options: Any) -> Any:
        """Begin a transaction with this name. It would wait for ever rather than give way."""
        patient = {"policy": "timeout", "patience": 3600.0}
        transaction = self._transactions[name] = self._client.transaction(**patient, **options)
        return transaction.lock(name).fence

    async def do_go_on(self, began: str, name: str) -> Any:
        """Let a transaction wait for one more name, in the background."""
        transaction = self._transactions[began]
        self._in_background(lambda: transaction.lock(name))
        return "waits"

    def _in_background(self, act: Callable[[], Any]) -> None:
        def quietly() -> None:
            with suppress(fencelock.FencelockError):
                act()

        threading.Thread(target=quietly, daemon=True).start()


if __name__ == "__main__":
    serve(Worker(*sys.argv[1:]))
