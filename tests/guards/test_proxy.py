"""The fencing proxy, in front of storage that knows nothing of fences."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from fencelock.guards.http import headers, refusal
from fencelock.guards.proxy import FencingProxy
from tests.guards.lease_likes import FIRST
from tests.waiting import PATIENCE


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None: ...


class Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Site:
    """A WSGI application on a real port."""

    def __init__(self, app: Any) -> None:
        self.server = make_server("127.0.0.1", 0, app, Threads, Quiet)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()

    def ask(self, method: str, path: str, body: bytes = b"", **more: str) -> tuple[int, bytes]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body, more)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


class Storage:
    """Files in memory. A PUT with the body `slow` waits until the test lets it go on."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.arrived = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"] + "?" + environ["QUERY_STRING"]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if body == b"slow":
            self.arrived.set()
            self.go_on.wait(PATIENCE)
        if environ["REQUEST_METHOD"] == "PUT":
            self.files[path] = body
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [self.files.get(path, b"nothing")]


@pytest.fixture
def storage() -> Storage:
    return Storage()


@pytest.fixture
def site(storage: Storage, tmp_path: Path) -> Iterator[Site]:
    behind = Site(storage)
    front = Site(FencingProxy(f"http://127.0.0.1:{behind.port}/base/", tmp_path / "fences.db"))
    yield front
    storage.go_on.set()
    front.close()
    behind.close()


def test_a_stale_holder_is_refused(site: Site, storage: Storage) -> None:
    old, new = headers(FIRST), headers(FIRST.newer())
    assert site.ask("PUT", "/a%20b?v=1", b"1", **old) == (200, b"1")
    assert site.ask("PUT", "/a%20b?v=1", b"2", **new) == (200, b"2")
    status, body = site.ask("PUT", "/a%20b?v=1", b"3", **old)
    error = refusal(body)
    assert status == 409
    assert error is not None
    assert (error.given, error.newest) == (33, 34)
    assert storage.files == {"/base/a b?v=1": b"2"}
    assert site.ask("GET", "/a%20b?v=1") == (200, b"2")
    assert site.ask("PUT", "/a%20b?v=1", b"4")[0] == 428


def test_nothing_overtakes_a_request_that_was_checked(site: Site, storage: Storage) -> None:
    with ThreadPoolExecutor(2) as threads:
        old = threads.submit(site.ask, "PUT", "/x", b"slow", **headers(FIRST))
        assert storage.arrived.wait(PATIENCE)
        new = threads.submit(site.ask, "PUT", "/x", b"new", **headers(FIRST.newer()))
        assert site.ask("GET", "/x") == (200, b"nothing")
        assert not new.done()
        storage.go_on.set()
        assert old.result(PATIENCE)[0] == new.result(PATIENCE)[0] == 200
    assert storage.files["/base/x?"] == b"new"


def test_fences_outlive_the_proxy(storage: Storage, tmp_path: Path) -> None:
    behind = Site(storage)
    statuses = []
    for lease in (FIRST.newer(), FIRST):
        front = Site(FencingProxy(f"http://127.0.0.1:{behind.port}", tmp_path / "fences.db"))
        statuses.append(front.ask("DELETE", "/x", b"", **headers(lease))[0])
        front.close()
    behind.close()
    assert statuses == [200, 409]
    front = Site(FencingProxy(f"http://127.0.0.1:{behind.port}", tmp_path / "fences.db"))
    assert front.ask("DELETE", "/x", b"", **headers(FIRST.newer()))[0] == 502
    front.close()


def test_what_is_no_storage(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="http"):
        FencingProxy("localhost:80", tmp_path / "fences.db")
