"""An operation of the face for people: how its request is read, and what it may answer.

The routes and the OpenAPI document are made from the same operations. So they can't differ.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol
from urllib.parse import unquote

import msgspec
from aiohttp import web

from fencelock.core.names import check_name
from fencelock.service.forms import KEY, Key
from fencelock.service.principals import Principal
from fencelock.service.problems import Refused

EVERYWHERE = (
    *("malformed", "unauthorized", "forbidden", "not-found", "method-not-allowed", "too-large"),
    *("unsupported", "limited", "internal", "draining", "engine-away", "engine-unknown"),
)
"""The problems that any operation may answer with."""


class Identifies(Protocol):
    """Says who asks: the service."""

    def identify(self, request: web.Request) -> Principal: ...


@dataclass(frozen=True)
class Call:
    """A request whose sender is known."""

    request: web.Request
    principal: Principal
    name: str
    """The lock's name; empty if the path has none."""
    key: str = ""
    """The Idempotency-Key; empty if the operation takes none."""

    @cached_property
    def id(self) -> str:
        """The ticket's id. Two strangers that send the same key must not share a lease."""
        parts = msgspec.json.encode([self.principal.name, self.name, self.key])
        return hashlib.sha256(parts).hexdigest()[:32]

    @property
    def is_open(self) -> bool:
        """Whether the client still waits for the answer."""
        transport = self.request.transport
        return transport is not None and not transport.is_closing()


@dataclass(frozen=True)
class Operation:
    """One method of one path."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    form: type[msgspec.Struct] | None
    """What the request says: the body of a POST, the query of the others."""
    answers: dict[int, type[Any] | str | None]
    """For each status that is no problem: the type of the JSON, or the media type of something else."""
    act: Callable[[Call, Any], Awaitable[web.Response]] | None = None
    """None: this is only the description, and another file has the route."""
    problems: tuple[str, ...] = ()
    """The problems that it may answer with, besides those of `EVERYWHERE`."""
    key: Literal["", "optional", "required"] = ""
    """Whether the header Idempotency-Key is read."""

    def route(self, service: Identifies) -> web.RouteDef:
        """The route of this operation."""
        act = self.act
        shape = self.form
        assert act is not None, self.path
        assert shape is not None, self.path
        decode = msgspec.json.Decoder(shape).decode

        async def handle(request: web.Request) -> web.Response:
            principal = service.identify(request)
            call = Call(request, principal, self._name(request), self._key(request))
            if self.method == "POST":
                if request.content_type != "application/json":
                    # A web page can make a browser send anything else to a service on loopback.
                    raise Refused("not-json", "send a JSON object as application/json: curl --json")
                form = decode(await request.read())
            else:
                form = msgspec.convert(dict(request.query), shape, strict=False)
            return await act(call, form)

        # Every character is allowed in a name. By default aiohttp leaves out { and }.
        return web.route(self.method, self.path.replace("{name}", "{name:[^/]+}"), handle)

    def _name(self, request: web.Request) -> str:
        if "{name}" not in self.path:
            return ""
        # Not aiohttp's own: it leaves percent signs that encode no UTF-8 as they are.
        place = self.path.split("/").index("{name}")
        coded = request.rel_url.raw_path.split("/")[place]
        return check_name(unquote(coded, errors="strict"))

    def _key(self, request: web.Request) -> str:
        if not self.key:
            return ""
        given = request.headers.getall(KEY, [])
        if not given and self.key == "optional":
            return secrets.token_hex(16)
        if len(given) != 1:
            raise Refused("malformed", f"this request needs one header {KEY}, that of its acquire")
        try:
            return msgspec.convert(given[0], Key)
        except msgspec.ValidationError:
            raise Refused(
                "malformed",
                f"{KEY} must be 16 to 200 visible ASCII characters, and random: with it, "
                "the lock can be released",
            ) from None
