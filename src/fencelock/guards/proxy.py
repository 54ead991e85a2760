"""A proxy in front of HTTP storage that can't check fences by itself: it refuses a stale holder's requests.

    app = FencingProxy("http://127.0.0.1:9000", "fences.db")      # a WSGI application

It lets requests that change something through one at a time, and each only with the newest fence. A check
alone would not be enough: a request could be checked, be overtaken by a newer holder's, and arrive after it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import quote, urlsplit

from fencelock.core.durations import Duration, check_positive
from fencelock.guards.http import KEY, Refusal, WsgiFence
from fencelock.guards.lease_like import LeaseLike
from fencelock.guards.rows import SqlGuard

MAX_BODY = 64 * 2**20

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization", "content-length", "host"),
    )
)
"""Headers that concern one connection. http.client makes its own."""


class FencingProxy(WsgiFence):
    """A WSGI application that forwards to `upstream`. The newest fences are in the SQLite file `fences`.

    GET, HEAD and OPTIONS pass without a fence. `timeout`: the seconds that the storage has for an answer. All
    that changes the storage must come through proxies with the same file, on one machine.
    """

    def __init__(
        self, upstream: str, fences: str | os.PathLike[str], *, timeout: Duration = 30.0
    ) -> None:
        self._upstream = urlsplit(upstream)
        if self._upstream.scheme not in ("http", "https") or not self._upstream.hostname:
            raise ValueError(f"the storage must be an http:// or https:// URL, not {upstream!r}")
        self._fences = os.fspath(fences)
        self._timeout = check_positive("timeout", timeout)
        self._guard = SqlGuard()
        with self._transaction() as connection:
            self._guard.create(connection)
        super().__init__(self._pass, required=True)

    def _pass(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = _body(environ)
        claim: LeaseLike | None = environ.get(KEY)
        if claim is None:
            return self._forward(environ, body, start_response)
        with self._transaction() as connection:
            # Committed first: if this process dies in the next step, an older holder is refused all the same.
            self._guard.check(connection, claim)
        with self._transaction() as connection:
            # The file is locked until the storage has answered, so nothing overtakes this request.
            self._guard.check(connection, claim)
            return self._forward(environ, body, start_response)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._fences, timeout=2 * self._timeout, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Refusal("storage-away", f"the proxy is busy: {error}") from error
        finally:
            connection.close()

    def _forward(
        self, environ: dict[str, Any], body: bytes, start_response: Any
    ) -> Iterable[bytes]:
        kind = HTTPSConnection if self._upstream.scheme == "https" else HTTPConnection
        assert self._upstream.hostname is not None
        connection = kind(self._upstream.hostname, self._upstream.port, timeout=self._timeout)
        try:
            connection.request(
                environ["REQUEST_METHOD"], self._target(environ), body, _headers(environ)
            )
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, HTTPException) as error:
            raise Refusal("storage-away", f"{type(error).__name__}: it may have acted") from error
        finally:
            connection.close()
        about = [each for each in answer.getheaders() if each[0].lower() not in _HOP_BY_HOP]
        about.append(("Content-Length", str(len(content))))
        start_response(f"{answer.status} {answer.reason}", about)
        return [content]

    def _target(self, environ: dict[str, Any]) -> str:
        path = environ.get("PATH_INFO", "").encode("latin-1")
        query = environ.get("QUERY_STRING", "")
        target = self._upstream.path.rstrip("/") + quote(path or b"/", safe="/:@!$&'()*+,;=~")
        return f"{target}?{query}" if query else target


def _body(environ: dict[str, Any]) -> bytes:
    """The whole body, before anything is locked: a slow client must not keep the others waiting."""
    try:
        size = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        raise Refusal("malformed", "Content-Length must be a number") from None
    if not 0 <= size <= MAX_BODY:
        raise Refusal("malformed", f"the body may have {MAX_BODY} bytes")
    body: bytes = environ["wsgi.input"].read(size) if size else b""
    if len(body) != size:
        raise Refusal("malformed", "the body did not arrive as Content-Length promised")
    return body


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    sent = {
        name[5:].replace("_", "-"): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        sent["Content-Type"] = environ["CONTENT_TYPE"]
    return {name: value for name, value in sent.items() if name.lower() not in _HOP_BY_HOP}
