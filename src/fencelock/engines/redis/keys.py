"""How a lock's name becomes keys, and back.

In a Cluster the part of a key in braces decides where it lives, so a name's own closing braces are
written differently: all keys of a name share a slot, and no two names share a key.
"""

from __future__ import annotations

RECORDS = "fencelock:{*}"
"""The pattern of all record keys, and of no others of ours."""


def tag_of(name: str) -> str:
    """What stands between the braces."""
    if "}" in name or "%" in name:
        return name.replace("%", "%25").replace("}", "%7D")
    return name


def keys_of(tag: str) -> tuple[str, str, str]:
    """The record, the queue and the tickets in it."""
    key = f"fencelock:{{{tag}}}"
    return key, key + ":q", key + ":w"


def note_of(tag: str) -> tuple[str]:
    """What is noted down for the name: a key that outlives the others."""
    return (f"fencelock:{{{tag}}}:n",)


def keys_and_note_of(tag: str) -> tuple[str, ...]:
    """All keys of a name."""
    return keys_of(tag) + note_of(tag)


def name_of(record_key: bytes) -> str:
    """The name to which a record belongs."""
    tag = record_key.decode(errors="replace").removeprefix("fencelock:{").removesuffix("}")
    return tag.replace("%7D", "}").replace("%25", "%")
