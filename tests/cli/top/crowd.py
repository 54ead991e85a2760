"""Real holders and waiters for `fencelock top` to show."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import fencelock
from tests.cli.conftest import waiting
from tests.waiting import eventually


class Crowd:
    """Callers of one client, each with a label of its own."""

    def __init__(self, url: str) -> None:
        self._client = fencelock.Client(url, ttl=600)
        self._leases: dict[str, fencelock.Lease] = {}
        self._waiters: list[threading.Thread] = []

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()  # the waiters get an error, and end
        for each in self._waiters:
            each.join()

    def hold(self, name: str, label: str = "holder") -> fencelock.Lease:
        lease = self._leases[name] = self._client.lock(name, label=label).acquire()
        return lease

    def has_held(self, name: str, seconds: float) -> None:
        """Wait until the engine says that a name has been held for so long."""
        eventually(
            lambda: self._client.inspect(name).holders[0].held_for >= seconds,
            f"{name} to be held for {seconds} s",
        )

    def wait(self, name: str, *labels: str) -> None:
        """Let a caller with each label wait, in this order."""
        before = self._client.inspect(name).waiting
        for count, label in enumerate(labels, start=before + 1):
            thread = threading.Thread(target=self._acquire, args=(name, label))
            self._waiters.append(thread)
            thread.start()
            waiting(self._client, name, count)

    def _acquire(self, name: str, label: str) -> None:
        with suppress(fencelock.FencelockError):
            self._leases[name] = self._client.lock(name, label=label).acquire()

    def release(self, name: str) -> None:
        self._leases.pop(name).release()

    def holders(self, name: str) -> list[str]:
        """The labels of the present holders."""
        return [each.owner.label for each in self._client.inspect(name).holders]

    def fence(self, name: str) -> Any:
        return self._client.inspect(name).holders[0].fence
