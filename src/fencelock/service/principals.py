"""Who asks, and what it may do."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Any, Literal, get_args

from fencelock.service.problems import Refused

Right = Literal["read", "lock", "break", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)

Rights = dict[Right, tuple[str, ...]]
"""For each right, the patterns of the names that it is for."""


@dataclass(slots=True, eq=False)  # not frozen: one is made for each request
class Principal:
    """Somebody that asks: a token, a certificate, or everybody if the service has no tokens."""

    name: str
    rights: Rights = field(default_factory=dict)
    address: str = ""
    """From where it asks."""
    credential: str = ""
    """What it has shown: "token ID" or "certificate SUBJECT". Empty for everybody."""
    expires: float = math.inf
    """When the credential ends, in seconds since 1970."""

    def may(self, right: Right, name: str) -> bool:
        """Whether it has this right for this name."""
        return _match(self.rights.get(right, ()), name)

    def require(self, right: Right, name: str) -> None:
        """Refuse a request for which the right is missing."""
        if not self.may(right, name):
            raise Refused(
                "forbidden", f"{self.name} lacks the right {right!r} for {name!r}", name=name
            )

    def require_everywhere(self, right: Right) -> None:
        """Refuse a request that is about the whole service, unless it has this right for all names."""
        if "*" not in self.rights.get(right, ()):
            raise Refused("forbidden", f"{self.name} lacks the right {right!r} for all names ('*')")


@lru_cache(maxsize=10_000)  # names come again and again
def _match(patterns: tuple[str, ...], name: str) -> bool:
    return "*" in patterns or any(_matcher(each)(name) for each in patterns)


@lru_cache(maxsize=10_000)
def _matcher(pattern: str) -> Callable[[str], object]:
    """As `core.names.matches`, but a third of the time."""
    return re.compile(translate(unicodedata.normalize("NFC", pattern))).match


def check_rights(given: Mapping[str, Any]) -> Rights:
    """Rights as a file or a flag has them. *admin* includes the others. Raises `ValueError`."""
    rights: Rights = {}
    for right, patterns in given.items():
        if right not in RIGHTS:
            raise ValueError(f"{right!r} is not a right: the rights are {', '.join(RIGHTS)}")
        if not isinstance(patterns, list | tuple) or not all(
            isinstance(each, str) and each for each in patterns
        ):
            raise ValueError(f"the right {right!r} needs a list of patterns, such as ['order:*']")
        rights[right] = tuple(patterns)
    admin = rights.get("admin", ())
    if not admin:
        return rights
    return {right: tuple(dict.fromkeys((*rights.get(right, ()), *admin))) for right in RIGHTS}


EVERYBODY = Principal("everybody", dict.fromkeys(RIGHTS, ("*",)))
"""Asks a service that has no tokens."""
