"""A note that an engine keeps for a name, where the engine itself does not count its time."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """What was noted down, and for how many seconds."""

    keep: float
    text: str

    def pack(self) -> bytes:
        """As an engine stores it."""
        return f"{self.keep!r} {self.text}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Note:
        keep, _, text = data.decode().partition(" ")
        return cls(float(keep), text)
