"""TLS options in URLs, for the engines whose connections Fencelock opens itself."""

from __future__ import annotations

import ssl

from fencelock.core.url import Url

TLS_OPTIONS = ("ca", "cert", "key", "verify")


def tls_of(url: Url) -> ssl.SSLContext:
    """The TLS context for a URL: which servers to trust, and the client's own certificate."""
    if url.options.get("verify", "yes") not in ("yes", "no"):
        raise ValueError(f"{url}: option verify must be yes or no")
    if "key" in url.options and "cert" not in url.options:
        raise ValueError(f"{url}: option key needs the option cert: the certificate it belongs to")
    context = tls_with_files(url, "ca", "cert", "key")
    if url.options.get("verify") == "no":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def tls_with_files(url: Url, ca: str, cert: str, key: str) -> ssl.SSLContext:
    """A TLS context with the files that these options name: an authority, a certificate and its key."""
    try:
        context = ssl.create_default_context(cafile=url.file(ca))
        if (certificate := url.file(cert)) is not None:
            context.load_cert_chain(certificate, url.file(key))
    except OSError as error:  # an ssl.SSLError among them
        raise ValueError(f"{url}: can't read the certificate files: {error}") from error
    return context
