"""One process of test_story.py: it has a lock and a store, obeys commands, and can be stopped in between."""

from __future__ import annotations

import sys
from typing import Any

from tests.child import Session, serve
from tests.guards.stores import STORES


class StoryProcess(Session):
    """A child process that also has a store."""

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
    serve(StoryProcess(*sys.argv[1:]))
