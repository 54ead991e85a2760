"""The keys of a name.

In a Cluster the part of a key in braces (its *tag*) decides on which node it lives. So closing braces in a
name are encoded: all keys of a name share a slot, and no two names share a key.
"""

from __future__ import annotations

RECORDS = "fencelock:{*}"
"""The pattern of all record keys, and of no others of ours."""


def tag_of(name: str) -> str:
    """The part of the keys between the braces."""
    if "}" in name or "%" in name:
        return name.replace("%", "%25").replace("}", "%7D")
    return name


def keys_of(tag: str) -> tuple[str, str, str]:
    """The keys of the record, of the queue, and of the tickets in the queue."""
    key = f"fencelock:{{{tag}}}"
    return key, key + ":q", key + ":w"


def note_of(tag: str) -> tuple[str]:
    """The key of the name's note, which outlives the others."""
    return (f"fencelock:{{{tag}}}:n",)


def keys_and_note_of(tag: str) -> tuple[str, ...]:
    """All keys of a name."""
    return keys_of(tag) + note_of(tag)


def name_of(record_key: bytes) -> str:
    """The name that a record's key belongs to."""
    tag = record_key.decode(errors="replace").removeprefix("fencelock:{").removesuffix("}")
    return tag.replace("%7D", "}").replace("%25", "%")
