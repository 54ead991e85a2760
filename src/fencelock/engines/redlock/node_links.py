"""The links to all nodes: send to all of them at once, then take the answers as they come."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any

from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.link import Link

NodeAnswer = tuple[int, list[Any] | RequestFailed]
"""A node, and its replies or why there will be none."""


class NodeLinks(ABC):
    """One link to each node that can be reached, for one question at a time.

    A decision needs a majority, not all nodes. Answers that come after the decision are not needed: a link
    remembers how many replies it is still owed, and skips them.
    """

    def __init__(self, nodes: int) -> None:
        self.at: list[Any | None] = [None] * nodes
        """The link to each node, if there is one."""
        self.runs = [""] * nodes
        """The server process at the other end of each link; see `Nodes._identify`."""
        self._answers: deque[NodeAnswer] = deque()

    @property
    def usable(self) -> bool:
        """Whether the links can be used for another question."""
        return True

    def connected(self) -> list[int]:
        """The nodes to which there is a link."""
        return [node for node, link in enumerate(self.at) if link is not None]

    def channel(self, node: int) -> str:
        """The channel on which this node can wake us."""
        link = self.at[node]
        return "" if link is None else str(link.channel)

    @abstractmethod
    def follows(self, other: NodeLinks) -> bool:
        """Whether a node receives what is sent here after what was sent on `other`."""

    @abstractmethod
    def connect(self, node: int, link: Link, run: str) -> None:
        """Use this link to a node from now on."""

    @abstractmethod
    def drop(self, node: int) -> None:
        """Close the link to a node."""

    @abstractmethod
    def begin(self) -> None:
        """Begin a new question. Answers to the previous one are skipped from now on."""

    @abstractmethod
    def send(self, node: int, payload: bytes, count: int) -> None:
        """Ask a node: packed commands, which will get `count` replies."""

    @abstractmethod
    def tell(self, node: int, payload: bytes, count: int) -> None:
        """Send packed commands whose replies are skipped. The node must owe no answer to this question."""

    @abstractmethod
    def when_answered(self, node: int, call: Callable[[bool], None]) -> None:
        """Call back when the node has answered everything that it was sent so far.

        The argument is False if it refused, or if the link is lost before.
        """

    @abstractmethod
    async def next_answer(self, until: float) -> NodeAnswer | None:
        """The next answer of any node that was asked. None when the time is up or all have answered."""

    @abstractmethod
    def unanswered(self) -> list[int]:
        """The nodes that have not answered the last question yet."""

    @abstractmethod
    async def overdue(self, limit: float) -> list[int]:
        """The nodes that have owed an answer to any question for more than `limit` seconds.

        Reads first what has arrived: perhaps our own process was stopped, not the node.
        """

    @abstractmethod
    def expect(self, waiter: str) -> None:
        """Collect wake-ups for the ticket `waiter` from now on."""

    @abstractmethod
    def ignore(self, waiter: str) -> None:
        """Stop collecting them. A `listen` for them ends."""

    @abstractmethod
    async def listen(self, waiter: str, until: float) -> None:
        """Sleep until any node has a wake-up for a ticket, or until the time is up."""

    @abstractmethod
    def dismiss(self, waiter: str) -> None:
        """End the `listen` of another task or thread."""

    @abstractmethod
    def interrupt(self, waiter: str) -> None:
        """The same, called from any thread."""
