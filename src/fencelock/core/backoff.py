"""How long to wait before trying again."""

from __future__ import annotations

from random import Random


class Backoff:
    """Growing pauses with jitter, so that clients that failed together do not come back together."""

    def __init__(self, base: float, cap: float, random: Random) -> None:
        self._base = base
        self._cap = cap
        self._random = random
        self._tries = 0

    def next(self) -> float:
        """The next pause in seconds: between half and all of base·2^tries, never above cap."""
        ceiling = min(self._cap, self._base * float(2**self._tries))
        self._tries = min(self._tries + 1, 32)
        return ceiling * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """Start with short pauses again, after a success."""
        self._tries = 0
