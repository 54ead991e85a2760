"""One process of a story: has a lock and a store, does what it is told, and can be stopped in between."""

from __future__ import annotations

import sys
from typing import Any

from tests.child import Session, serve
from tests.guards.stores import STORES


class Player(Session):
    """A child that knows a store as well."""

    def __init__(self, url: str, store: str, where: str, name: str) -> None:
        super().__init__("sync", url)
        self._store = STORES[store](where, name)

    async def do_read(self) -> Any:
        return self._store.read()

    async def do_write(self, value: int, guarded: bool) -> Any:
        self._store.write(value, self._lease if guarded else None)
        return "written"

    async def do_raise_fence(self) -> Any:
        self._store.raise_fence(self._lease)
        return "raised"


if __name__ == "__main__":
    serve(Player(*sys.argv[1:]))
