"""What a ZooKeeper URL may say besides where the servers are."""

from __future__ import annotations

from fencelock.core.url import Url

SESSION = 40.0
"""Seconds after which the servers forget a client that they don't hear of, unless the URL says otherwise.

As long as a server with its own defaults allows, so that the default ttl of 30 s fits into it.
"""

OPTIONS = ("session",)


def hosts_of(url: Url) -> list[tuple[str, int]]:
    return [(host, port or 2181) for host, port in url.hosts] or [("localhost", 2181)]


def root_of(url: Url) -> str:
    """The path under which all our nodes are, without a slash at its end."""
    parts = [part for part in url.path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise ValueError(f"{url}: the path must not contain '.' or '..'")
    return "".join(f"/{part}" for part in (*parts, "fencelock"))


def credentials_of(url: Url) -> str | None:
    """User and password for digest authentication."""
    if url.user is None and url.password is None:
        return None
    if url.user is None or url.password is None:
        raise ValueError(
            f"{url}: digest authentication needs both, zookeeper://user:password@host:2181"
        )
    return f"{url.user}:{url.password}"
