"""Who asks, and what it may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from fencelock.core.names import matches
from fencelock.service.problems import Refused

Right = Literal["read", "lock", "break", "admin"]


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody that asks: a token, a certificate, or everybody if the service has no tokens."""

    name: str
    rights: dict[Right, tuple[str, ...]] = field(default_factory=dict)
    """For each right, the patterns of the names that it is for."""

    def may(self, right: Right, name: str) -> bool:
        """Whether it has this right for this name."""
        return any(matches(name, pattern) for pattern in self.rights.get(right, ()))

    def require(self, right: Right, name: str) -> None:
        """Refuse a request for which the right is missing."""
        if not self.may(right, name):
            raise Refused("forbidden", f"{self.name} lacks the right {right!r} for {name!r}")


EVERYBODY = Principal("everybody", dict.fromkeys(("read", "lock", "break", "admin"), ("*",)))
"""Asks a service that has no tokens."""
