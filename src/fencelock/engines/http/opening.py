"""From a URL to an engine."""

from __future__ import annotations

import os
from urllib.parse import quote

from fencelock.core.url import Url
from fencelock.engines.http.blocking import BlockingNode
from fencelock.engines.http.engine import HttpEngine
from fencelock.engines.http.link import Login
from fencelock.engines.http.multiplexed import MultiplexedNode
from fencelock.engines.http.wire import PATH
from fencelock.engines.tls import TLS_OPTIONS, tls_of
from fencelock.io.contract import IO

TOKEN = "FENCELOCK_TOKEN"


def open_http(url: Url, io: IO) -> HttpEngine:
    """`http://token@a,b,c` and `https://…`; see docs/engines/http.md."""
    secure = url.scheme == "https"
    url.only(*(TLS_OPTIONS if secure else ()))
    if not url.hosts:
        raise ValueError(f"{url}: name the service, as in http://localhost:7007")
    tls = tls_of(url) if secure else None
    login = Login(quote(url.path.rstrip("/")) + PATH, _token_of(url), tls)
    make = BlockingNode if io.blocking else MultiplexedNode
    ports = [(_ascii(url, host), port or (443 if secure else 80)) for host, port in url.hosts]
    return HttpEngine([make(host, port, login) for host, port in ports], str(url), io)


def _token_of(url: Url) -> str | None:
    """The token: as the user or the password of the URL, or in the environment."""
    if url.user and url.password:
        raise ValueError(f"{url}: one token only: as the user or as the password, not both")
    token = url.user or url.password or os.environ.get(TOKEN) or None
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise ValueError(f"{url}: a token has only printable ASCII characters, and no space")
    return token


def _ascii(url: Url, host: str) -> str:
    """The host as it stands in DNS and in a certificate."""
    try:
        text = host.encode("idna").decode()
    except UnicodeError:
        text = ""
    if not text or not text.isprintable() or " " in text:
        raise ValueError(f"{url}: this is not the name of a host")
    return text
