"""URL options that all databases have."""

from __future__ import annotations

import re

from fencelock.core.url import Url


def connections_of(url: Url) -> int:
    """The option `connections`: how many requests may be under way at the same moment."""
    text = url.options.get("connections", "8")
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise ValueError(f"{url}: option connections must be a whole number from 1 to 9999")
    return int(text)


def heartbeat_of(url: Url) -> float:
    """The option `heartbeat`: how often the engine checks that sessions live, in seconds."""
    heartbeat = url.seconds("heartbeat", 10.0)
    if not 0.05 <= heartbeat <= 3600:
        raise ValueError(f"{url}: option heartbeat must be from 0.05 to 3600 seconds")
    return heartbeat


def identifier_of(url: Url, option: str, default: str, max_length: int) -> str:
    """An option that becomes a part of unquoted SQL names: `schema` or `prefix`."""
    text = url.options.get(option, default)
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", text) or len(text) > max_length:
        raise ValueError(
            f"{url}: option {option} must be lower-case letters, digits and underscores, at most "
            f"{max_length} of them, not {text!r}"
        )
    return text
