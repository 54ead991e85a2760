"""What an etcd URL says besides the addresses of the servers."""

from __future__ import annotations

from pathlib import Path

import grpc

from fencelock.core.url import Url
from fencelock.engines.etcd.cluster import Login

_TLS_OPTIONS = ("ca", "cert", "key")


def login_of(url: Url) -> Login | None:
    """The user and the password, if the URL has them."""
    if url.user is None and url.password is None:
        return None
    if url.user is None or url.password is None:
        raise ValueError(f"{url}: a login needs both, as in etcd://user:password@host")
    return Login(url.user, url.password)


def credentials_of(url: Url) -> grpc.ChannelCredentials | None:
    """The authority to trust and the client's certificate. None if the URL does not ask for TLS."""
    if url.scheme == "etcd":
        url.only()
        return None
    url.only(*_TLS_OPTIONS)
    if ("key" in url.options) != ("cert" in url.options):
        raise ValueError(f"{url}: the options cert and key go together")
    try:
        ca, cert, key = (
            Path(url.options[option]).read_bytes() if option in url.options else None
            for option in _TLS_OPTIONS
        )
    except OSError as error:
        raise ValueError(f"{url}: can't read the certificate files: {error}") from error
    return grpc.ssl_channel_credentials(ca, key, cert)
