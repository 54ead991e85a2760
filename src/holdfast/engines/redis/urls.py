"""What a Redis URL may say besides where the servers are."""

from __future__ import annotations

import ssl

from holdfast.core.url import Url

OPTIONS = {"": (), "sentinel": ("sentinel_password",), "cluster": ()}
"""By the kind of URL."""

TLS_OPTIONS = ("ca", "cert", "key", "verify")


def database_of(url: Url, text: str) -> int:
    """The number of the database, 0 if none is given."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{url}: the database must be a number, as in redis://localhost/0")
    return int(text)


def tls_of(url: Url) -> ssl.SSLContext:
    """Whom to trust, and who we are."""
    if url.options.get("verify", "yes") not in ("yes", "no"):
        raise ValueError(f"{url}: option verify must be yes or no")
    if "key" in url.options and "cert" not in url.options:
        raise ValueError(f"{url}: option key needs the option cert: the certificate it belongs to")
    try:
        context = ssl.create_default_context(cafile=url.options.get("ca"))
        if "cert" in url.options:
            context.load_cert_chain(url.options["cert"], url.options.get("key"))
    except OSError as error:
        raise ValueError(f"{url}: can't read the certificate files: {error}") from error
    if url.options.get("verify") == "no":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
