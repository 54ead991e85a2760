"""Guards that keep the fence in the user's own table, in the row that it protects."""

from __future__ import annotations

from typing import Any, ClassVar

from fencelock.guards.lease_like import LeaseLike, holder_of, refused
from fencelock.guards.rows import check_identifier
from fencelock.guards.sessions import session_of, stamped
from fencelock.io.blocking import blocking


class BaseColumnGuard:
    """What `ColumnGuard` and `AsyncColumnGuard` share."""

    _blocking: ClassVar[bool] = True

    def __init__(
        self, table: str, *, key: str = "id", fence: str = "fence", holder: str = "holder"
    ) -> None:
        self.table, self.key, self.fence, self.holder = map(
            check_identifier, (table, key, fence, holder)
        )


class AsyncColumnGuard(BaseColumnGuard):
    """`ColumnGuard` for asyncio."""

    _blocking = False

    async def update(
        self: BaseColumnGuard, /, connection: Any, lease: LeaseLike, key: Any, **values: Any
    ) -> None:
        """Set columns of the row with this key.

        `StaleFence` if a newer holder has written the row, `LookupError` if there is no such row.
        """
        session = session_of(connection, blocking=self._blocking)
        fence, holder = self.fence, self.holder
        given = (lease.fence, holder_of(lease))
        changes = "".join(f"{check_identifier(column)} = {{}}, " for column in values)
        changed = await session.run(
            f"UPDATE {self.table} SET {changes}{fence} = {{}}, {holder} = {{}} "
            f"WHERE {self.key} = {{}} AND ({fence} IS NULL OR {fence} < {{}} "
            f"OR ({fence} = {{}} AND {holder} = {{}}))",
            *values.values(),
            *given,
            key,
            lease.fence,
            *given,
        )
        if changed == 1:
            return
        # The count alone proves no refusal. MySQL also says 0 if it found the row and had nothing to
        # change. In a pipeline psycopg does not know the count yet.
        dialect, _ = await session.look()
        locked = "" if dialect == "sqlite" else " FOR UPDATE"
        found = await session.ask(
            f"SELECT {fence}, {holder} FROM {self.table} WHERE {self.key} = {{}}{locked}", key
        )
        if not found:
            raise LookupError(f"{self.table} has no row with {self.key} = {key!r}")
        if (newest := stamped(found[0])) != given:
            raise refused("columns", lease, newest[0])


class ColumnGuard(BaseColumnGuard):
    """Updates a row unless a newer holder has. The row has two extra columns, `fence` and `holder`."""

    update = blocking(AsyncColumnGuard.update)
