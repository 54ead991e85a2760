"""Options that the URLs of all databases have."""

from __future__ import annotations

import re

from fencelock.core.url import Url

_CONNECTIONS = 8
_HEARTBEAT = 10.0


def connections_of(url: Url) -> int:
    """How many requests may be under way at the same moment: `connections`."""
    text = url.options.get("connections", str(_CONNECTIONS))
    if not (text.isascii() and text.isdigit() and 0 < int(text) < 10_000):
        raise ValueError(f"{url}: option connections must be a whole number from 1 to 9999")
    return int(text)


def heartbeat_of(url: Url) -> float:
    """How often session locks are asked whether they live: `heartbeat`, in seconds."""
    heartbeat = url.seconds("heartbeat", _HEARTBEAT)
    if not 0.05 <= heartbeat <= 3600:
        raise ValueError(f"{url}: option heartbeat must be from 0.05 to 3600 seconds")
    return heartbeat


def part_of_names(url: Url, option: str, default: str, most: int) -> str:
    """An option that becomes a part of names in a database, unquoted: `schema` or `prefix`."""
    text = url.options.get(option, default)
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", text) or len(text) > most:
        raise ValueError(
            f"{url}: option {option} must be lower-case letters, digits and underscores, not {text!r}"
        )
    return text
