"""A client of the face for people that knows nothing but HTTP."""

from __future__ import annotations

import json
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.servers import HOST
from tests.waiting import PATIENCE

KEY = "Idempotency-Key"
A, B, C = (f"the-key-of-contender-{each}" for each in "abc")


class Reply(NamedTuple):
    """The answer of a replica."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """Which problem it is."""
        return str(self.body["type"].removeprefix("urn:fencelock:"))


class Api:
    """Asks the replica on a port, with a connection for each request."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._threads = ThreadPoolExecutor(8)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """`body`: bytes as they are, anything else as JSON."""
        connection = HTTPConnection(HOST, self.port, timeout=PATIENCE)
        sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        about = {} if sent is None else {"Content-Type": "application/json"}
        about |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, sent, about)
            answer = connection.getresponse()
            got = answer.read()
        finally:
            connection.close()
        kind = answer.getheader("Content-Type") or ""
        return Reply(
            answer.status, json.loads(got) if "json" in kind else got, dict(answer.headers)
        )

    def lock(self, name: str, verb: str, key: str | None = None, **body: Any) -> Reply:
        """`lock("x", "acquire", KEY, ttl=30)`."""
        headers = {} if key is None else {KEY: key}
        return self.ask("POST", f"/v1/locks/{quote(name, safe='')}/{verb}", body, **headers)

    def later(self, name: str, verb: str, key: str, **body: Any) -> Future[Reply]:
        """The same in the background."""
        return self._threads.submit(self.lock, name, verb, key, **body)

    def show(self, name: str) -> Any:
        reply = self.ask("GET", f"/v1/locks/{quote(name, safe='')}")
        assert reply.status == 200, reply
        return reply.body

    def close(self) -> None:
        self._threads.shutdown()
