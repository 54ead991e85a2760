"""What guards read of a lease, without a lock: a name, a fence, an id."""

from __future__ import annotations

from typing import NamedTuple


class LeaseLike(NamedTuple):
    """Stands for a lease."""

    name: str
    fence: int
    id: str

    def newer(self) -> LeaseLike:
        """The lease of the next holder."""
        return self._replace(fence=self.fence + 1, id=self.id + "'")

    def rival(self) -> LeaseLike:
        """The lease of another holder with the same fence, as after a failover that lost the fence."""
        return self._replace(id=self.id + "?")


FIRST = LeaseLike("order:42", 33, "the first one's secret")
