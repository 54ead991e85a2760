"""Private Redis servers that know nothing of one another: the nodes of a Redlock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencelock.servers.process import ServerSet
from fencelock.servers.redis import RedisServer


class RedlockSet(ServerSet):
    """The nodes of a Redlock. Options are those of `RedisServer`."""

    servers: Sequence[RedisServer]
    _kind: type[RedisServer] = RedisServer

    def __init__(self, folder: Path, *, nodes: int = 5, **options: Any) -> None:
        super().__init__(folder)
        self.servers = [self._kind(folder / f"node-{n}", **options) for n in range(nodes)]

    @property
    def url(self) -> str:
        return f"redlock://{self.addresses}"
