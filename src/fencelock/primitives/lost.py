"""The event that is set when a lease is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencelock.core.durations import Duration, check_timeout
from fencelock.io.blocking import run

if TYPE_CHECKING:
    from fencelock.primitives.lease import BaseLease


class Lost:
    """Set when the lease is lost. Like `threading.Event`, to look at and to wait for."""

    def __init__(self, lease: BaseLease) -> None:
        self._lease = lease
        self._event = lease._context.lost_event(lease._claim)

    def is_set(self) -> bool:
        """Whether the lease is lost, by this moment's clock."""
        return self._lease._is_lost()

    def __bool__(self) -> bool:
        """The same, for `if lease.lost:`."""
        return self.is_set()

    def wait(self, timeout: Duration | None = None) -> bool:
        """Block until the lease is lost (True) or the timeout has passed (False)."""
        return run(self._event.wait(None if timeout is None else check_timeout(timeout)))


class AsyncLost(Lost):
    """Set when the lease is lost. Like `asyncio.Event`, to look at and to wait for."""

    async def wait(self, timeout: Duration | None = None) -> bool:  # type: ignore[override]
        """Wait until the lease is lost (True) or the timeout has passed (False)."""
        return await self._event.wait(None if timeout is None else check_timeout(timeout))
