"""The lines to all nodes at once: send to all of them, then hear whoever answers first."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.link import Link

Heard = tuple[int, list[Any] | RequestFailed]
"""Which node, and its replies or why there will be none."""


class Lines(ABC):
    """One line to each node that can be reached, for one question at a time.

    A decision needs a majority, not all. What the others answer later is nobody's concern: a line
    remembers how many replies it is still owed, and skips them.
    """

    def __init__(self, nodes: int) -> None:
        self.links: list[Any | None] = [None] * nodes
        self.runs = [""] * nodes
        """The process at the other end of each line."""
        self._heard: deque[Heard] = deque()

    @property
    def usable(self) -> bool:
        """Whether they can be used again after this."""
        return True

    def up(self) -> list[int]:
        """The nodes to which there is a line."""
        return [node for node, link in enumerate(self.links) if link is not None]

    def channel(self, node: int) -> str:
        """Where a node can wake us."""
        link = self.links[node]
        return "" if link is None else str(link.channel)

    @abstractmethod
    def follows(self, other: Lines) -> bool:
        """Whether a node hears what is sent here after what was sent there."""

    @abstractmethod
    def connect(self, node: int, link: Link, run: str) -> None:
        """Have a line to a node."""

    @abstractmethod
    def drop(self, node: int) -> None:
        """Have none any more."""

    @abstractmethod
    def begin(self) -> None:
        """A new question: nobody waits for answers to the last one any more."""

    @abstractmethod
    def send(self, node: int, payload: bytes, count: int) -> None:
        """Ask a node: packed commands, to which there will be so many replies."""

    @abstractmethod
    def tell(self, node: int, payload: bytes, count: int) -> None:
        """Tell a node that owes no answer to this question something; nobody waits for its reply."""

    @abstractmethod
    def when_heard(self, node: int, call: Callable[[bool], None]) -> None:
        """Call this when the node has answered what it was sent last; with False if it refused to do it,
        or if the line is lost before."""

    @abstractmethod
    async def hear(self, until: float) -> Heard | None:
        """The next answer of any node that was asked; None when the time is up or all have answered."""

    @abstractmethod
    def silent(self) -> list[int]:
        """The nodes that have not answered the last question yet."""

    @abstractmethod
    async def overdue(self, limit: float) -> list[int]:
        """The nodes that have owed an answer, to whatever question, for longer than so many seconds.

        What has arrived counts, though nobody has read it yet: we may have been away, not they.
        """

    @abstractmethod
    def expect(self, waiter: str) -> None:
        """Collect wake-ups for a ticket from now on."""

    @abstractmethod
    def ignore(self, waiter: str) -> None:
        """Collect them no more; one who still listens for them stops."""

    @abstractmethod
    async def listen(self, waiter: str, until: float) -> None:
        """Sleep until any node has a wake-up for a ticket, or until the time is up."""

    @abstractmethod
    def dismiss(self, waiter: str) -> None:
        """Have the one that listens stop; called by another one."""

    @abstractmethod
    def interrupt(self, waiter: str) -> None:
        """The same, called from any thread."""
