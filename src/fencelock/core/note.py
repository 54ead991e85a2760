"""A note as an engine stores it, for engines that can't delete it by their own clock."""

from __future__ import annotations

from typing import NamedTuple


class Note(NamedTuple):
    """A text that `remember` stores and `recall` returns, and how many seconds to keep it."""

    keep: float
    text: str

    def pack(self) -> bytes:
        """The bytes for an engine to store."""
        return f"{self.keep!r} {self.text}".encode()

    @classmethod
    def unpack(cls, data: bytes) -> Note:
        keep, _, text = data.decode().partition(" ")
        return cls(float(keep), text)
