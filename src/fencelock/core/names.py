"""The names of locks: which are allowed, and how a pattern matches them."""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase

MAX_NAME_BYTES = 512

_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""No '/', so that no namespace is a part of another one. Nothing that means something in a pattern."""


def check_name(name: str) -> str:
    """Return the name as the engines store it, or raise a `ValueError` that says what is wrong.

    The name is converted to Unicode's composed form (NFC). Then two spellings that look the same, typed
    on two systems, are the same lock. Nothing else is changed.
    """
    if not isinstance(name, str):
        raise TypeError(f"a lock's name must be a str, not {type(name).__name__}")
    if name.isascii():
        if name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES:
            return name
    else:
        name = unicodedata.normalize("NFC", name)
    if not name:
        raise ValueError("a lock's name must not be empty: name what it protects, e.g. 'order:42'")
    if not name.isprintable():
        bad = next(character for character in name if not character.isprintable())
        raise ValueError(
            f"a lock's name must be printable, but it contains {bad!a}: "
            "leave out control characters, line breaks and invisible characters"
        )
    size = len(name.encode())
    if size > MAX_NAME_BYTES:
        raise ValueError(
            f"a lock's name must be at most {MAX_NAME_BYTES} bytes of UTF-8, but this one has {size}: "
            "use a shorter name, or a hash of the long one"
        )
    return name


def check_namespace(namespace: str) -> str:
    """Return the namespace, or raise a `ValueError` that says what a namespace must be."""
    if not isinstance(namespace, str):
        raise TypeError(f"a namespace must be a str, not {type(namespace).__name__}")
    if not _NAMESPACE.fullmatch(namespace):
        raise ValueError(
            "a namespace is 1 to 64 ASCII letters, digits, '-', '_' and '.', such as 'shop', "
            f"not {namespace!r}"
        )
    return namespace


def full_name(namespace: str, name: str) -> str:
    """The name at the engine of a name in a namespace."""
    return check_name(f"{namespace}/{check_name(name)}")


def is_name(text: str) -> bool:
    """Whether a lock can have this name. An engine may also hold the keys of other programs."""
    try:
        return check_name(text) == text
    except ValueError:
        return False


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a shell pattern (`*`, `?`, `[abc]`). The same on every engine."""
    return fnmatchcase(name, unicodedata.normalize("NFC", pattern))
