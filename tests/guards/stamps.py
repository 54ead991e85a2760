"""Leases as guards see them, without a lock: a name, a fence, an id."""

from __future__ import annotations

from typing import NamedTuple


class Stamp(NamedTuple):
    """What `lease.name`, `lease.fence` and `lease.id` would be."""

    name: str
    fence: int
    id: str

    def newer(self) -> Stamp:
        """Of the one that came after it."""
        return self._replace(fence=self.fence + 1, id=self.id + "'")

    def rival(self) -> Stamp:
        """Of another one with the very same fence, as after a failover that forgot it."""
        return self._replace(id=self.id + "?")


FIRST = Stamp("order:42", 33, "the first one's secret")
