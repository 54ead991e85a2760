"""What a client remembers about one of its tickets."""

from __future__ import annotations

from fencelock.core.backoff import Backoff
from fencelock.core.ticket import Owner
from fencelock.engines.redlock.node_links import NodeLinks


class TicketState:
    """A ticket that holds or waits."""

    __slots__ = (
        "abandoned", "asked_on", "backoff", "bids", "channels", "elsewhere", "expires", "fence", "id",
        "links", "owner", "parked", "recheck_at", "released", "since", "told", "unheard", "withdrawn",
    )  # fmt: skip

    def __init__(self, id: str, now: float, backoff: Backoff, nodes: int) -> None:
        self.id = id
        """The id of its last bid, as the nodes know it."""
        self.bids = 0
        self.withdrawn = True
        """Whether its last bid was released: the next bid needs another id."""
        self.elsewhere = False
        """Whether a node has the lock for another bid of this ticket, probably another client's."""
        self.fence = 0
        self.abandoned = False
        self.since = now
        self.backoff = backoff
        self.channels = [""] * nodes
        """The channel on which each node was told to wake it."""
        self.owner: Owner | None = None
        """The owner under which the nodes list it as a waiter."""
        self.told: set[int] = set()
        """The nodes that were sent its last bid, so that they may have granted it."""
        self.asked_on: NodeLinks | None = None
        """The links on which its last bid was sent."""
        self.unheard: list[int] = []
        """The nodes that may not have received that bid yet."""
        self.released: dict[int, bool] = {}
        """What nodes have answered to its release: True if it is gone, False if it was not there."""
        self.expires = 0.0
        """When the ticket has expired, unless another client renews it."""
        self.recheck_at = 0.0
        """When it bids again, if it waits and no wake-up comes."""
        self.links: NodeLinks | None = None
        """While it waits: the links on which wake-ups arrive."""
        self.parked: NodeLinks | None = None
        """The same links while its caller sleeps on them. Nobody else may use them then."""

    @property
    def waits_here(self) -> bool:
        """Whether its caller waits at this client, and not perhaps at another one."""
        return not self.fence and (self.links is not None or self.parked is not None)

    def begin_bid(self, id: str) -> None:
        """Bid with a new id: a late release of the previous bid must not take away what this one gets."""
        self.bids += 1
        self.withdrawn = False
        self.id = id
        self.told = set()
        self.released = {}
        self.asked_on, self.unheard = None, []

    def known_at(self) -> set[int]:
        """The nodes that may know this ticket: its bid, or where to wake it."""
        return self.told | {node for node, channel in enumerate(self.channels) if channel}
