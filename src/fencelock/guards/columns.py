"""Guards for those who prefer the fence in their own table: it stands in the row that it protects."""

from __future__ import annotations

from typing import Any

from fencelock.core.errors import StaleFence
from fencelock.guards.rows import check_identifier
from fencelock.guards.sessions import Session, session_of, stamped
from fencelock.guards.stamp import Stamp, holder_of
from fencelock.io.blocking import run


class _Columns:
    """What both faces share."""

    def __init__(
        self, table: str, *, key: str = "id", fence: str = "fence", holder: str = "holder"
    ) -> None:
        self.table, self.key, self.fence, self.holder = map(
            check_identifier, (table, key, fence, holder)
        )

    async def _update(
        self, session: Session, lease: Stamp, key: Any, values: dict[str, Any]
    ) -> None:
        fence, holder = self.fence, self.holder
        its = (lease.fence, holder_of(lease))
        changes = "".join(f"{check_identifier(column)} = {{}}, " for column in values)
        changed = await session.run(
            f"UPDATE {self.table} SET {changes}{fence} = {{}}, {holder} = {{}} "
            f"WHERE {self.key} = {{}} AND ({fence} IS NULL OR {fence} < {{}} "
            f"OR ({fence} = {{}} AND {holder} = {{}}))",
            *values.values(),
            *its,
            key,
            lease.fence,
            *its,
        )
        if changed == 1:
            return
        # MySQL also says 0 if it found the row and had nothing to change in it; psycopg does not know yet
        # in a pipeline.
        dialect, _ = await session.look()
        locked = "" if dialect == "sqlite" else " FOR UPDATE"
        found = await session.ask(
            f"SELECT {fence}, {holder} FROM {self.table} WHERE {self.key} = {{}}{locked}", key
        )
        if not found:
            raise LookupError(f"{self.table} has no row with {self.key} = {key!r}")
        if (seen := stamped(found[0])) != its:
            raise StaleFence(lease.name, given=lease.fence, newest=seen[0])


class ColumnGuard(_Columns):
    """Updates a row unless a newer holder has: the row has two columns more, `fence` and `holder`."""

    def update(self, connection: Any, lease: Stamp, key: Any, **values: Any) -> None:
        """Set columns of the row with this key; `StaleFence` if a newer holder did, `LookupError` if none."""
        run(self._update(session_of(connection, blocking=True), lease, key, values))


class AsyncColumnGuard(_Columns):
    """The same for asyncio."""

    async def update(self, connection: Any, lease: Stamp, key: Any, **values: Any) -> None:
        """Set columns of the row with this key; `StaleFence` if a newer holder did, `LookupError` if none."""
        await self._update(session_of(connection, blocking=False), lease, key, values)
