"""What a Redis URL may say besides where the servers are."""

from __future__ import annotations

from fencelock.core.url import Url

OPTIONS = {"": (), "sentinel": ("sentinel_password",), "cluster": ()}
"""By the kind of URL."""


def database_of(url: Url, text: str) -> int:
    """The number of the database, 0 if none is given."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"{url}: the database must be a number, as in redis://localhost/0")
    return int(text)
