"""One process of test_end_to_end.py: it takes orders under a lock, and shows its metrics to Prometheus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from prometheus_client import start_http_server

from fencelock import observe
from fencelock.guards.files import FencedFile
from fencelock.observe.prometheus import Metrics
from tests.child import Session, serve
from tests.servers import HOST

NAME = "order:42"


class Shop(Session):
    """A child process with a store that checks fences, and with metrics."""

    def __init__(self, url: str, store: str) -> None:
        observe.add(Metrics(groups={"order:*": "order"}))
        self._server, _ = start_http_server(0, HOST)
        super().__init__("sync", url)
        self._store = FencedFile(Path(store))

    async def do_port(self) -> Any:
        return self._server.server_port

    async def do_work(self, orders: int) -> Any:
        for number in range(orders):
            with self._client.lock(NAME, ttl=20) as lease:
                self._store.write(str(number).encode(), lease)
        return orders

    async def do_write(self) -> Any:
        """Write without a look at the clock, as a program does that trusts its lock."""
        self._store.write(b"stale", self._lease)
        return "written"


if __name__ == "__main__":
    serve(Shop(*sys.argv[1:]))
