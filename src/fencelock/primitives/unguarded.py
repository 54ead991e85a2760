"""The warning about correctness locks without a guard."""

from __future__ import annotations

import warnings

from fencelock.primitives.call_site import call_site, place_of


class UnguardedLock(UserWarning):
    """A warning: a lock with `purpose="correctness"` has no `guard`, so nothing refuses a stale holder."""


_told: set[tuple[str, int]] = set()
"""The files and lines where such locks were made."""


def warn() -> None:
    """Say once for each line of the program that a correctness lock has no guard."""
    place = place_of(call_site())
    if place in _told:
        return
    _told.add(place)
    warnings.warn_explicit(
        "a lock with purpose='correctness' has no guard: a holder that was paused past its ttl can still "
        "write. Give it guard=…, or guard=None if your storage compares the fences anyway, as with "
        "guard.check() in your own transaction. docs/fencing.md has a guard for each kind of storage",
        UnguardedLock,
        *place,
    )
