"""What a MySQL URL means: the server, the user, and how to connect."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple

from fencelock.core.url import Url
from fencelock.engines.mysql.schema import PREFIX
from fencelock.engines.sql.database import identifier_of
from fencelock.engines.tls import tls_with_files

OPTIONS = ("prefix", "connections", "socket", "sslmode", "sslrootcert", "sslcert", "sslkey")

_PORT = 3306
_SSL_MODES = ("disable", "require", "verify-ca", "verify-full")


class Target(NamedTuple):
    """A URL, parsed."""

    where: str
    """The URL without its password, for messages."""
    settings: dict[str, Any]
    """What both drivers take: host and port or unix_socket, user, password, database, ssl."""
    prefix: str
    connections: int


def target_of(url: Url, *more: str) -> Target:
    """Parse a URL. Raises a `ValueError` that says what is wrong with it. `more`: further options."""
    url.only(*OPTIONS, *more)
    prefix = identifier_of(url, "prefix", PREFIX, 31)
    connections = url.number("connections", 8, 9999)
    database = url.path.strip("/") or PREFIX
    if "/" in database:
        raise ValueError(f"{url}: name one database, as in {url.scheme}://user@localhost/database")
    if len(url.hosts) > 1:
        raise ValueError(f"{url}: name one server: the one that is written to")
    settings: dict[str, Any] = {
        "user": url.user or "",
        "password": url.password or "",
        "database": database,
        "ssl": _ssl(url),
    }
    if "socket" in url.options:
        if url.hosts:
            raise ValueError(f"{url}: name a host or a socket, not both")
        settings["unix_socket"] = url.options["socket"]
    else:
        host, port = url.hosts[0] if url.hosts else ("localhost", None)
        # For "localhost" some drivers use a default socket instead of TCP, each its own.
        settings |= {"host": "127.0.0.1" if host == "localhost" else host, "port": port or _PORT}
    return Target(str(url), settings, prefix, connections)


def _ssl(url: Url) -> ssl.SSLContext | None:
    if url.tls is not None:
        context: ssl.SSLContext = url.tls
        return context
    certificates = [option for option in url.options if option in OPTIONS[4:]]
    mode = url.options.get("sslmode", "verify-full" if certificates else "disable")
    if mode not in _SSL_MODES:
        raise ValueError(f"{url}: option sslmode must be one of {', '.join(_SSL_MODES)}")
    if mode == "disable":
        if certificates:
            raise ValueError(f"{url}: {certificates[0]} is of no use with sslmode=disable")
        return None
    context = tls_with_files(url, *OPTIONS[4:])
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    return context
