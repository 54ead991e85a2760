"""Private Redis servers that know nothing of one another: the nodes of a Redlock."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fencelock.servers.process import ServerSet
from fencelock.servers.redis import RedisServer


class RedlockSet(ServerSet):
    """The nodes of a Redlock."""

    servers: Sequence[RedisServer]
    _kind: type[RedisServer] = RedisServer

    def __init__(self, folder: Path, *, size: int = 5, **options: Any) -> None:
        super().__init__(folder, size=size, **options)

    @property
    def url(self) -> str:
        return f"redlock://{self.addresses}"
