"""What is wrong is refused as what it is: never with a 5xx, never without a problem."""

from __future__ import annotations

import json
import socket
from http.client import HTTPResponse
from typing import Any

import pytest

from fencelock.engines.http.wire import MAX_MESSAGE
from tests.servers import HOST
from tests.servers_service import Replica
from tests.service.rest.api import KEY, A, Api

HUGE = str(10**400)

BODIES = [
    b"",
    b"nonsense",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff\xfe",
    b'{"label": "\xff"}',
    b'{"label": "\\ud800"}',
    b'{"label": "a\\u0000b"}',
    b'{"label": "a\\tb"}',
    b'{"label": 7}',
    json.dumps({"label": "x" * 201}).encode(),
    b'{"ttl": NaN}',
    b'{"ttl": Infinity}',
    b'{"ttl": 1e999}',
    f'{{"ttl": {HUGE}}}'.encode(),
    b'{"ttl": -1}',
    b'{"ttl": 0}',
    b'{"ttl": "30"}',
    b'{"ttl": true}',
    b'{"ttl": null}',
    b'{"ttl": [30]}',
    b'{"wait": -0.1}',
    b'{"wait": 50.1}',
    b'{"wait": 1e999}',
    b'{"permits": 0}',
    b'{"permits": 1.5}',
    b'{"permits": -9223372036854775809}',
    f'{{"permits": {HUGE}}}'.encode(),
    b'{"read": 1}',
    b'{"require": "certainty"}',
    b'{"require": ["correctness"]}',
    b"[" * 100_000,
    b'{"unknown": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    b'{"unknown":' * 50_000,
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body[:40]))
def test_bodies(api: Api, name: str, body: bytes) -> None:
    refused = api.ask("POST", f"/v1/locks/{name}/acquire", body, **{KEY: A})
    assert (refused.status, refused.kind) == (400, "malformed")
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert A not in str(refused.body)
    assert api.show(name)["holders"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"fence": "7"},
        {"name": "x"},
        {"name": "x", "fence": 7},
        {"name": "x", "fence": "-7"},
        {"name": "x", "fence": "٣"},  # a digit, for Python
        {"name": "x", "fence": "7" * 19},
        {"name": "x", "fence": "7\n"},
        {"name": "", "fence": "7"},
        {"name": "ü" * 257, "fence": "7"},
        {"name": "a\nb", "fence": "7"},
    ],
    ids=ascii,
)
def test_fences(api: Api, body: dict[str, Any]) -> None:
    refused = api.ask("POST", "/v1/fences/check", body)
    assert (refused.status, refused.kind) == (400, "malformed")


@pytest.mark.parametrize("query", ["waiters=-1", "waiters=1001", "waiters=x", "waiters="])
def test_queries(api: Api, name: str, query: str) -> None:
    refused = api.ask("GET", f"/v1/locks/{name}?{query}")
    assert (refused.status, refused.kind) == (400, "malformed")


def test_unknown_fields_are_ignored(api: Api, name: str) -> None:
    assert api.lock(name, "acquire", A, colour="red").status == 200
    assert api.ask("GET", f"/v1/locks/{name}?colour=red").status == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "text/json", ""]
)
def test_only_json(api: Api, name: str, kind: str) -> None:
    """A web page can't make a browser send JSON to a service on loopback."""
    refused = api.ask("POST", f"/v1/locks/{name}/acquire", b"{}", Content_Type=kind)
    assert (refused.status, refused.kind) == (415, "not-json")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/nothing", 404, "not-found"),
        ("POST", "/v1/locks//acquire", 404, "not-found"),
        ("POST", "/v1/locks/a/b/acquire", 404, "not-found"),
        ("POST", "/v1/locks/a/steal", 404, "not-found"),
        ("PUT", "/v1/locks/a", 405, "method-not-allowed"),
        ("GET", "/v1/locks/a/acquire", 405, "method-not-allowed"),
        ("GET", "/v1/line", 400, "malformed"),
    ],
)
def test_what_aiohttp_refuses(api: Api, method: str, path: str, status: int, kind: str) -> None:
    refused = api.ask(method, path)
    assert (refused.status, refused.kind) == (status, kind)
    assert refused.headers["Content-Type"] == "application/problem+json"
    assert ("Allow" in refused.headers) == (status == 405)


def test_a_body_that_is_too_large(api: Api, name: str) -> None:
    body = b" " * (MAX_MESSAGE + 1)
    refused = api.ask("POST", f"/v1/locks/{name}/acquire", body)
    assert (refused.status, refused.kind) == (413, "too-large")


ASK = b"POST /v1/locks/x/acquire HTTP/1.1\r\nHost: x\r\n"
JSON = b"Content-Type: application/json\r\n"


NO_HTTP = [
    b"nonsense\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /v1/locks/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /v1/locks/x HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 100_000 + b"\r\n\r\n",
    b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ASK + JSON + b"Content-Length: -1\r\n\r\n{}",
    ASK + JSON + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    ASK + JSON + b"Transfer-Encoding: chunked\r\n\r\nnonsense\r\n\r\n",
    ASK + JSON + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
    ASK + JSON + b"Expect: the-impossible\r\nContent-Length: 2\r\n\r\n{}",
]
"""aiohttp refuses this before the service sees it."""

WRONG = [
    ASK + JSON + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
    ASK + b"Content-Type: application/json; charset=nonsense\r\nContent-Length: 1\r\n\r\n{",
    ASK + JSON + 2 * b"Idempotency-Key: sixteen-characters\r\n" + b"Content-Length: 2\r\n\r\n{}",
]


@pytest.mark.parametrize("sent", [*NO_HTTP, *WRONG], ids=lambda sent: ascii(sent[-60:]))
def test_http_that_is_wrong(replica: Replica, sent: bytes) -> None:
    with socket.create_connection((HOST, replica.port), timeout=10) as client:
        client.sendall(sent)
        answer = HTTPResponse(client)
        answer.begin()
        body = answer.read()
    assert 400 <= answer.status < 500
    if sent in WRONG:
        assert answer.getheader("Content-Type") == "application/problem+json"
        assert json.loads(body)["status"] == answer.status
