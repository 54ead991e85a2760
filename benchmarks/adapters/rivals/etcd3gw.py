"""etcd3gw, over etcd's HTTP gateway. No fence and no waiting: acquire returns True or False."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.adapters.contract import Turns
from fencelock.core.url import Url


class Etcd3gw(Turns):
    """A new lock object each time, as in its documentation. Each attempt grants a lease."""

    label = "etcd3gw Lock, tried every 10 ms"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        import etcd3gw

        host, port = Url.parse(url).hosts[0]
        self._client = etcd3gw.client(host=host, port=port, api_path="/v3/")
        self._name = name
        self._lock: Any = None

    def acquire(self) -> None:
        self._lock = self._client.lock(self._name, ttl=int(self.ttl))
        while not self._lock.acquire():
            time.sleep(0.01)

    def release(self) -> None:
        assert self._lock.release()
