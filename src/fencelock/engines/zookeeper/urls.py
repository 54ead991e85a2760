"""What a ZooKeeper URL says."""

from __future__ import annotations

import ssl
from typing import NamedTuple

from fencelock.core.url import Url
from fencelock.engines.tls import TLS_OPTIONS, tls_of

_SESSION = 40.0
"""Length of a session in seconds, unless the URL says otherwise: after so long without a word from a client,
the servers forget it. A server with default settings allows no more. The default ttl of 30 s fits into it."""


class Settings(NamedTuple):
    """Where the servers are, and how a client uses them."""

    hosts: list[tuple[str, int]]
    root: str
    """The path of the node below which all queues are."""
    session: float
    """The length of a session that the client asks for, in seconds."""
    credentials: str | None
    """User and password for digest authentication."""
    tls: ssl.SSLContext | None


def settings_of(url: Url) -> Settings:
    """The settings in a URL. An option that is unknown or makes no sense is a `ValueError`."""
    secure = url.scheme == "zookeepers"
    url.only("session", *(TLS_OPTIONS if secure else ()))
    parts = [part for part in url.path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise ValueError(f"{url}: the path must not contain '.' or '..'")
    if (url.user is None) != (url.password is None):
        raise ValueError(
            f"{url}: digest authentication needs both, zookeeper://user:password@host:2181"
        )
    return Settings(
        hosts=[(host, port or 2181) for host, port in url.hosts] or [("localhost", 2181)],
        root="".join(f"/{part}" for part in (*parts, "fencelock")),
        session=url.seconds("session", _SESSION),
        credentials=None if url.user is None else f"{url.user}:{url.password}",
        tls=tls_of(url) if secure else None,
    )
