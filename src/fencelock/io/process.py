"""Which process this is. Leases, threads and connections do not survive a fork."""

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
        """Raise in a forked child. Costs no system call, so the hot path can afford it."""
        if self._generation != _generation:
            raise FencelockError(
                f"this belongs to process {self._pid} and can't be used in its child {os.getpid()}: a "
                "lease does not survive a fork. Acquire the lock again in the child; the parent's lease is "
                "unharmed"
            )

    @property
    def here(self) -> bool:
        """Whether this is still the process in which it was made."""
        return self._generation == _generation
