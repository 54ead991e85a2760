"""A worker whose guard reads the newest fence before the write is on its way, and trusts that later."""

from contextlib import suppress

from fencelock.core.errors import StaleFence
from fencelock.guards.lease_like import RemoteLease
from fencelock.guards.rows import SqlGuard
from fencelock.torture.real.worker import Worker, main


class Planted(Worker):
    def _deliver(
        self, late: float, number: int, stamp: RemoteLease, value: int, bare: int | None
    ) -> None:
        with suppress(StaleFence), self.register.transaction() as connection:
            self.register.guard.check(connection, stamp)
        self.register.guard = Trusting(self.register.guard.table, open=self.register.transaction)
        super()._deliver(late, number, stamp, value, bare)


class Trusting(SqlGuard):
    def check(self, connection: object, lease: object) -> None:
        """It was checked before."""


if __name__ == "__main__":
    main(Planted)
