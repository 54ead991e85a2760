"""When a node that may have forgotten something votes again, and above which fence.

A node is *blank* when its process is not the one it was last welcomed as, or when it was never
welcomed: it restarted, or was flushed. It says so itself, in every answer, and does not vote. A client
that meets one looks at all nodes and welcomes it when two things are certain:

- nothing that it voted for before is still under way: every lease and every bid from then is over;
- every fence that was won with its vote is known: from so many nodes that none of them can be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fencelock.engines.redlock.protocol import PATIENCE, majority


class Memory(NamedTuple):
    """What a node says of itself."""

    whole: bool
    """It has forgotten nothing since it was welcomed."""
    since: int = 0
    """When it was first met blank, in ms of its own clock: names this very loss of memory."""
    age: float = 0.0
    """Seconds since then."""
    ceiling: int = 0
    """No fence at this node is above it, of any name."""
    longest: float = 0.0
    """The longest ttl that it ever granted, in seconds."""

    @classmethod
    def parse(cls, reply: Sequence[int]) -> Memory:
        """Read the reply of `look`."""
        whole, since, age_ms, ceiling, longest_ms = reply
        return cls(bool(whole), since, age_ms / 1000, ceiling, longest_ms / 1000)


def wait(heard: Iterable[Memory], patience: float = PATIENCE) -> float:
    """How long a blank node has to wait, in seconds: until all that it may have voted for is over."""
    return max(patience, *(memory.longest for memory in heard))


def floor_for(
    node: int, heard: Mapping[int, Memory], nodes: int, *, hint: int, patience: float = PATIENCE
) -> int | None:
    """The fence above which a blank node may vote again; None: not yet.

    `heard`: what the nodes said just now, those that answered. `hint`: the client's clock in µs, or 0.
    """
    others = [memory for other, memory in heard.items() if other != node]
    whole = [memory for memory in others if memory.whole]
    # Nobody knows of any vote: a new set of nodes, or one that lost everything at once.
    if len(heard) == nodes and not any(one.whole or one.ceiling for one in heard.values()):
        return hint
    # After `patience` all bids from before are decided, so that what was won by them is known to others.
    if heard[node].age < wait(heard.values(), patience):
        return None
    # Whoever won with its vote had majority - 1 of the others too: of so many, one is among them.
    if len(whole) >= nodes - majority(nodes) + 1:
        return max(memory.ceiling for memory in whole)
    # Most have forgotten. What is left is to ask everybody and to trust the clock.
    if len(heard) == nodes:
        return max(hint, *(memory.ceiling for memory in heard.values()))
    return None
