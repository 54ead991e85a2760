"""etcd's own lock over its JSON gateway: what a program in any language can use today."""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection
from typing import Any

from benchmarks.adapters.contract import Turns
from fencelock.core.url import Url


class EtcdGateway(Turns):
    """One lease for all turns, and one connection that stays open."""

    label = "etcd's JSON gateway lock"

    def __init__(self, url: str, name: str, seat: int = 0, seats: int = 1) -> None:
        host, port = Url.parse(url).hosts[0]
        self._connection = HTTPConnection(host, port)
        self._name = base64.b64encode(name.encode()).decode()
        self._lease = self._post("/v3/lease/grant", TTL=int(self.ttl))["ID"]
        self._key = ""

    def acquire(self) -> None:
        self._key = self._post("/v3/lock/lock", name=self._name, lease=self._lease)["key"]

    def release(self) -> None:
        self._post("/v3/lock/unlock", key=self._key)

    def close(self) -> None:
        self._connection.close()

    def _post(self, path: str, **body: Any) -> Any:
        self._connection.request("POST", path, json.dumps(body))
        return json.loads(self._connection.getresponse().read())
