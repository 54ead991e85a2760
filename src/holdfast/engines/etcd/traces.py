"""Whether the holder before released: the trace that a holder leaves unless it does.

One key per name, there from the moment somebody joins an empty queue until the last one releases.
In between it says how the last holder that left by a request did so. Nobody has to write it when the
lock is handed on, and a holder that just vanishes changes nothing. So whoever is first can tell, by
the trace and by when it was written, whether somebody else was first since:

- **held**: written by the one who joined when nobody was there. If that is not the one who asks, it
  has vanished.
- **released**: by a holder behind whom others waited. Whoever was ahead of the one who asks at that
  moment has vanished since.
- **abandoned**: the last holder was lost or was taken out.

It lives on a lease of one to two days, for when nobody comes to tidy up.
"""

from __future__ import annotations

import time
from typing import Literal, NamedTuple

from holdfast.engines.etcd.messages_pb2 import KeyValue

State = Literal["held", "released", "abandoned"]


class Trace(NamedTuple):
    """What the trace says, and when it was written."""

    state: str
    fence: int
    """Of the one that released or was taken out."""
    at: float
    """By the wall clock of whoever wrote it: to be shown only."""
    revision: int

    @classmethod
    def read(cls, kv: KeyValue | None) -> Trace | None:
        if kv is None:
            return None
        state, fence, at = kv.value.decode(errors="replace").split(" ")
        return cls(state, int(fence), float(at), kv.mod_revision)

    def abandoned(self, fence: int, before: int) -> bool | None:
        """What it means to the one with this fence, who is first now, and behind `before` until then.

        None: one has to look who was in the queue when it was written.
        """
        if self.state != "released":
            return self.revision != fence
        if self.fence == before:
            return False
        # Somebody was there when it was written, or it would not have been; the one who asks was not.
        return True if self.revision < fence else None


def written(state: State, fence: int = 0) -> bytes:
    return f"{state} {fence} {time.time():.3f}".encode()
