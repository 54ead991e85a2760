"""Replicas of the lock service for tests: private, on free loopback ports, stopped by pid."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from fencelock.engines.http.websocket import Stream
from fencelock.engines.http.wire import MAX_MESSAGE
from tests.servers import HOST, Server


class Replica(Server):
    """A `fencelock serve` in front of an engine."""

    def __init__(self, folder: Path, engine_url: str, *options: str) -> None:
        super().__init__(folder)
        self.engine_url = engine_url
        self.options = options

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def command(self) -> list[str]:
        listen = f"{HOST}:{self.port}"
        serve = ["-m", "fencelock", "serve", "--engine", self.engine_url, "--listen", listen]
        return [sys.executable, *serve, *self.options]

    def tell(self, signum: int) -> None:
        """Send a signal to the running replica."""
        os.kill(self.pid, signum)

    def ready(self) -> bool:
        try:
            status, _ = self.get("/readyz")
        except (OSError, HTTPException):
            return False
        return status == 200

    def get(self, path: str, **headers: str) -> tuple[int, Any]:
        """The status and the body of an answer: JSON if it is JSON, else text."""
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer.status, json.loads(body) if is_json else body.decode()


def line_replies() -> Callable[[bytes], int]:
    """Count the replies on a line, piece by piece. `Hello` and `Wake` reply to nothing."""
    stream, head = Stream(MAX_MESSAGE), b""

    def count(piece: bytes) -> int:
        nonlocal head
        if not head.endswith(b"\r\n\r\n"):
            seen, separator, piece = (head + piece).partition(b"\r\n\r\n")
            head = seen + separator
        return sum(b'"kind":"Reply"' in message for message in stream.feed(piece))

    return count
