"""The nodes of a Redlock, with what only tests need of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fencelock.servers.redlock
from tests.servers import RedisServer


class RedlockSet(fencelock.servers.redlock.RedlockSet):
    servers: Sequence[RedisServer]
    _kind = RedisServer

    def __init__(self, folder: Path, *, nodes: int = 5, **options: Any) -> None:
        super().__init__(folder, size=nodes, **options)
        self.nodes = list(self.servers)

    def mend(self) -> None:
        """Repair what a test has done: all nodes run, and are empty. Changed settings stay changed."""
        self.heal()
        for node in self.nodes:
            with node.client() as client:
                client.script_flush()
                client.flushall()
