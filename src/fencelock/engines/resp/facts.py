"""What a server says of itself, and what to think of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencelock.engines.resp.packing import Command

MEMORY: Command = ("INFO", "memory")
"""To be asked of each new connection: see `eviction`."""


def facts_of(info: object) -> dict[str, str]:
    """What INFO answers; nothing if it was refused."""
    text = info.decode(errors="replace") if isinstance(info, bytes) else str(info)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def eviction(answers: Iterable[Any]) -> str | None:
    """How a server makes room when its memory is full, if it does so by forgetting keys.

    None also if it did not say: not every user may ask.
    """
    for answer in answers:
        facts = facts_of(answer) if isinstance(answer, (bytes, str)) else {}
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and facts.get("maxmemory") != "0":  # 0: it takes all it can get
            return policy
    return None
