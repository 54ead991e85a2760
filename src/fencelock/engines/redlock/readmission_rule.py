"""The rule by which a node that may have lost data votes again, and above which fence.

A node is *blank* if its process is not the one that was last readmitted: it restarted, was emptied, or is
new. It says so in every answer, and does not vote. A client that meets a blank node looks at all nodes. It
*readmits* the node (lets it vote) when two things are certain:

- Nothing that the node voted for before is still under way: every lease and every bid from then is over.
- Every fence that was won with its vote is known, because enough other nodes were asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fencelock.engines.redlock.protocol import DECISION_LIMIT, majority


class Memory(NamedTuple):
    """What a node says about itself."""

    intact: bool
    """It has lost nothing since it was readmitted."""
    since: int = 0
    """When it was first found blank, in ms of its own clock. Identifies this loss of data."""
    age: float = 0.0
    """Seconds since then."""
    ceiling: int = 0
    """No fence of any name at this node is above it."""
    longest: float = 0.0
    """The longest ttl that it ever granted, in seconds."""

    @classmethod
    def parse(cls, reply: Sequence[int]) -> Memory:
        """Read the reply of `look`."""
        intact, since, age_ms, ceiling, longest_ms = reply
        return cls(bool(intact), since, age_ms / 1000, ceiling, longest_ms / 1000)


def wait(heard: Iterable[Memory], limit: float = DECISION_LIMIT) -> float:
    """How long a blank node has to wait, in seconds, until everything it may have voted for is over."""
    return max(limit, *(memory.longest for memory in heard))


def floor_for(
    node: int, heard: Mapping[int, Memory], nodes: int, *, hint: int, limit: float = DECISION_LIMIT
) -> int | None:
    """The fence above which a blank node may vote again, or None: not yet.

    `heard`: what the nodes that answered said just now. `hint`: the client's clock in µs, or 0.
    """
    intact = [memory for other, memory in heard.items() if other != node and memory.intact]
    # No node knows of any vote: the set of nodes is new, or all lost their data at once.
    if len(heard) == nodes and not any(one.intact or one.ceiling for one in heard.values()):
        return hint
    # After `limit` all bids from before are decided, so other nodes know the fences that were won.
    if heard[node].age < wait(heard.values(), limit):
        return None
    # A winner with this node's vote also had majority - 1 of the others. Among this many, at least one of
    # those was asked.
    if len(intact) >= nodes - majority(nodes) + 1:
        return max(memory.ceiling for memory in intact)
    # Most nodes lost their data. All that is left is to ask every node, and to trust the clock.
    if len(heard) == nodes:
        return max(hint, *(memory.ceiling for memory in heard.values()))
    return None
