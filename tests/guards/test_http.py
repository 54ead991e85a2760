"""Fences over HTTP: the header, and both kinds of middleware, in front of an application with a counter."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from fencelock import StaleFence
from fencelock.guards import AsyncFencedFile, FencedFile
from fencelock.guards.http import HEADER, KEY, AsgiFence, WsgiFence, headers, refusal, remote_lease
from fencelock.guards.lease_like import holder_of
from tests.guards.lease_likes import FIRST, LeaseLike

ODD = LeaseLike('größer; fence=1, "x" 🔒/%25', 2**62, "a secret")


@pytest.mark.parametrize("stamp", [FIRST, ODD])
def test_the_header_there_and_back(stamp: LeaseLike) -> None:
    (value,) = headers(stamp).values()
    assert value.isascii()
    assert stamp.id not in value
    claim = remote_lease(value)
    assert (claim.name, claim.fence) == (stamp.name, stamp.fence)
    assert holder_of(claim) == holder_of(stamp)


def test_what_the_header_looks_like() -> None:
    assert headers(FIRST) == {HEADER: f"order%3A42; fence=33; holder={holder_of(FIRST)}"}


@pytest.mark.parametrize(
    "value",
    [
        "",
        "order",
        "order; fence=1",
        "order; fence=-1; holder=" + "0" * 32,
        "order; fence=1; holder=xyz",
        "order; fence=9999999999999999999; holder=" + "0" * 32,
        "; fence=1; holder=" + "0" * 32,
        "a%00b; fence=1; holder=" + "0" * 32,
        "%FF; fence=1; holder=" + "0" * 32,
        "a; fence=1; holder=" + "0" * 32 + ", b; fence=1; holder=" + "0" * 32,
    ],
)
def test_what_is_no_header(value: str) -> None:
    with pytest.raises(ValueError, match=r"must|decode"):
        remote_lease(value)


def test_a_claim_is_as_good_as_its_lease(tmp_path: Path) -> None:
    file = FencedFile(tmp_path / "report.txt")
    file.write(b"1", FIRST)
    file.write(b"2", remote_lease(headers(FIRST)[HEADER]))
    with pytest.raises(StaleFence):
        file.write(b"3", remote_lease(headers(FIRST.rival())[HEADER]))


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None: ...


class Site:
    """A WSGI application behind the middleware, on a real port."""

    def __init__(self, file: FencedFile, *, early: bool) -> None:
        self.file = file
        check = file.raise_fence if early else None
        app = WsgiFence(self._app, check, required=True)
        self.server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.reached = 0

    def _app(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        self.reached += 1
        start_response("200 OK", [("Content-Type", "text/plain")])
        if environ["REQUEST_METHOD"] == "PUT":
            self.file.write(b"written", environ[KEY])
        return [b"done"]

    def ask(self, method: str, more: dict[str, str]) -> tuple[int, bytes]:
        url = f"http://127.0.0.1:{self.server.server_port}/"
        request = urllib.request.Request(url, method=method, headers=more, data=b"x")
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@pytest.fixture(params=[True, False], ids=["early", "in the application"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    site = Site(FencedFile(tmp_path / "report.txt"), early=request.param)
    site.thread.start()
    yield site
    site.server.shutdown()
    site.thread.join()
    site.server.server_close()


def test_wsgi(site: Site) -> None:
    assert site.ask("PUT", headers(FIRST)) == (200, b"done")
    assert site.ask("PUT", headers(FIRST.newer())) == (200, b"done")
    status, body = site.ask("PUT", headers(FIRST))
    assert status == 409
    error = refusal(body)
    assert error is not None
    assert (error.name, error.given, error.newest) == ("order:42", 33, 34)
    assert site.ask("GET", {})[0] == 200
    reached = site.reached
    assert site.ask("PUT", {})[0] == 428
    assert site.ask("PUT", {HEADER: "nonsense"})[0] == 400
    assert site.reached == reached


class Answers(list[Any]):
    """What an ASGI application sent."""

    async def send(self, message: Any) -> None:
        self.append(message)


async def receive() -> Any:
    return {"type": "http.request", "body": b"", "more_body": False}


async def ask(app: Any, method: str, more: dict[str, str]) -> tuple[int, bytes]:
    answers = Answers()
    pairs = [(name.lower().encode(), value.encode()) for name, value in more.items()]
    await app({"type": "http", "method": method, "headers": pairs}, receive, answers.send)
    return answers[0]["status"], answers[1]["body"]


@pytest.mark.parametrize("early", [True, False], ids=["early", "in the application"])
async def test_asgi(tmp_path: Path, early: bool) -> None:
    file = AsyncFencedFile(tmp_path / "report.txt")

    async def site(scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] == "PUT":
            await file.write(b"written", scope[KEY])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"done"})

    app = AsgiFence(site, file.raise_fence if early else None, required=True)
    assert await ask(app, "PUT", headers(FIRST)) == (200, b"done")
    assert await ask(app, "PUT", headers(FIRST.newer())) == (200, b"done")
    status, body = await ask(app, "PUT", headers(FIRST))
    assert status == 409
    told = {"name": "order:42", "given": "33", "newest": "34"}
    assert json.loads(body).items() >= told.items()
    assert (await ask(app, "GET", {}))[0] == 200
    assert (await ask(app, "PUT", {}))[0] == 428
    assert (await ask(app, "PUT", {HEADER: "nonsense"}))[0] == 400


async def test_asgi_leaves_the_rest_alone() -> None:
    seen = []

    async def site(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            raise StaleFence("x", given=1, newest=2)

    app = AsgiFence(site)
    await app({"type": "lifespan"}, receive, Answers().send)
    assert seen == ["lifespan"]
    with pytest.raises(StaleFence):  # an answer that has begun can't be taken back
        await ask(app, "GET", {})


@pytest.mark.parametrize("body", [b"", b"nonsense", b"[]", b"{}", b'{"type": "about:blank"}'])
def test_another_409(body: bytes) -> None:
    assert refusal(body) is None
