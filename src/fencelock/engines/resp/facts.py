"""What a server says about itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencelock.engines.resp.packing import Command

MEMORY: Command = ("INFO", "memory")
"""Asked on each new connection; see `eviction`."""

Question = tuple[str, Command]
"""A question as people call it, and the command that asks it."""

_SETTINGS = ("appendfsync", "save", "min-replicas-to-write", "stop-writes-on-bgsave-error")
"""The settings that INFO does not show. Never one that is secret."""

DATA_QUESTIONS: tuple[Question, ...] = (
    ("INFO", ("INFO",)),
    ("CONFIG GET", ("CONFIG", "GET", *_SETTINGS)),
)
"""What to ask a server that keeps locks when it is examined."""


def facts_of(info: object) -> dict[str, str]:
    """The reply to INFO as a dict, which is empty if INFO was refused."""
    text = info.decode(errors="replace") if isinstance(info, bytes) else str(info)
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def eviction(answers: Iterable[Any]) -> str | None:
    """The maxmemory-policy of a server that deletes keys when its memory is full.

    None if it deletes none, or did not say: not every user may ask.
    """
    for answer in answers:
        facts = facts_of(answer) if isinstance(answer, (bytes, str)) else {}
        policy = facts.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and facts.get("maxmemory") != "0":  # 0: no limit
            return policy
    return None
