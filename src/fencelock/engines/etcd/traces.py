"""Whether the last one that held alone released: the trace that it leaves unless it does.

One key per name, there from the moment somebody joins an empty queue to hold alone until the last one
releases. In between it says how the last holder that left by a request did so. Nobody has to write it
when the lock is handed on, and a holder that just vanishes changes nothing. So whoever is first can
tell, by the trace and by when it was written, whether somebody else was first since:

- **held**: by the one who joined when nobody was there, or found itself the first in a way of which no
  trace told. If that is not the one who asks, it has vanished.
- **released**: by a holder behind whom others waited. If the one who was first then would have held alone,
  and is not the one who asks, it has vanished since.
- **abandoned**: the last one that held alone was lost or was taken out.

Those who share leave things as they found them: no trace, or one that says the same. So if they vanish,
there is nothing to be found, and one that is admitted alone after that writes down that it holds.

It lives on a lease of one to two days, for when nobody comes to tidy up.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Literal, NamedTuple

from fencelock.engines.etcd.messages_pb2 import KeyValue
from fencelock.engines.etcd.wire import Part, above, below

State = Literal["held", "released", "abandoned"]


class Verdict(NamedTuple):
    """What a trace means to one that is admitted."""

    abandoned: bool
    covered: bool = True
    """Whether others would notice if this one, holding alone, were to vanish."""


class Trace(NamedTuple):
    """What the trace says, and when it was written."""

    state: str
    fence: int
    """Of the one that holds, released or was taken out; 0: it was written when that one joined."""
    at: float
    """By the wall clock of whoever wrote it: to be shown only."""
    revision: int

    @classmethod
    def read(cls, kv: KeyValue | None) -> Trace | None:
        if kv is None:
            return None
        state, fence, at = kv.value.decode(errors="replace").split(" ")
        return cls(state, int(fence), float(at), kv.mod_revision)

    def verdict(self, fence: int, before: Iterable[int]) -> Verdict | None:
        """What it means to the one with this fence, who was behind those with the fences `before`.

        None: one has to look who was the first in the queue when it was written.
        """
        if self.state == "held":
            return Verdict((self.fence or self.revision) != fence)
        if self.state == "abandoned":
            return Verdict(True)
        return Verdict(False) if self.fence in before else None


def written(state: State, fence: int = 0) -> bytes:
    return f"{state} {fence} {time.time():.3f}".encode()


def said(key: bytes, state: State, fence: int) -> tuple[Part, Part]:
    """Whether the trace says this, whenever it was written."""
    words = f"{state} {fence}".encode()
    return above(key, words + b" "), below(key, words + b"!")
