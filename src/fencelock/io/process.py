"""Which process this is: leases, threads and connections do not survive a fork."""

from __future__ import annotations

import os

from fencelock.core.errors import FencelockError

_generation = 0


def _forked() -> None:
    global _generation
    _generation += 1


os.register_at_fork(after_in_child=_forked)


class Origin:
    """Remembers the process in which something was made."""

    __slots__ = ("_generation", "_pid")

    def __init__(self) -> None:
        self._generation = _generation
        self._pid = os.getpid()

    def verify(self) -> None:
        """Raise in a child process. Costs no system call, so it may stand on the hot path."""
        if self._generation != _generation:
            raise FencelockError(
                f"this client was made in process {self._pid} and can't be used in its child "
                f"{os.getpid()}: leases and connections don't survive a fork. "
                "Make a new Client in the child; the parent's leases are unharmed"
            )

    @property
    def here(self) -> bool:
        """Whether this is still the process in which it was made."""
        return self._generation == _generation
