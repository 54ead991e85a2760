"""What observers forget in a forked child: the tickets there are its parent's."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Forgets(Protocol):
    """Something that is about the tickets of one process."""

    def forget(self) -> None:
        """Forget all tickets. Another thread of the parent may have held a mutex: make a new one."""


_all: WeakSet[Forgets] = WeakSet()


def forget_in_children(forgetful: Forgets) -> None:
    """Call `forgetful.forget()` in each forked child."""
    _all.add(forgetful)


def _forked() -> None:
    for each in list(_all):
        each.forget()


os.register_at_fork(after_in_child=_forked)
