"""What a client remembers of one of its tickets."""

from __future__ import annotations

from fencelock.core.backoff import Backoff
from fencelock.core.ticket import Owner
from fencelock.engines.redlock.lines import Lines


class Seat:
    """A ticket that holds or waits."""

    __slots__ = (
        "abandoned",
        "asked_on",
        "backoff",
        "bids",
        "channels",
        "fence",
        "id",
        "lines",
        "over",
        "owner",
        "parked",
        "released",
        "since",
        "told",
        "unheard",
        "until",
    )

    def __init__(self, id: str, now: float, backoff: Backoff, nodes: int) -> None:
        self.id = id
        """Of its last bid, as the nodes know it."""
        self.bids = 0
        self.over = True
        """Its last bid was released: it is not to bid under that id again."""
        self.fence = 0
        self.abandoned = False
        self.since = now
        self.backoff = backoff
        self.channels = [""] * nodes
        """Where each node was told to wake it."""
        self.owner: Owner | None = None
        """As whom it is listed there."""
        self.told: set[int] = set()
        """The nodes that heard of its last bid, so that they may have it."""
        self.asked_on: Lines | None = None
        self.unheard: list[int] = []
        """Where its last bid was sent, and the nodes that may not have heard it yet."""
        self.released: dict[int, bool] = {}
        """What nodes have answered to its release: whether it is gone, or had never been there."""
        self.until = 0.0
        """While that is not decided: when it has expired anyway, and nobody asks again."""
        self.lines: Lines | None = None
        """While it waits: where the wake-ups arrive."""
        self.parked: Lines | None = None
        """The same while its caller sleeps there: nobody else may use them then."""

    def bid_anew(self, id: str) -> None:
        """Under an id of its own: a late release of the bid before must not take away what this one gets."""
        self.bids += 1
        self.over = False
        self.id = id if self.bids == 1 else f"{id}.{self.bids}"
        self.told = set()
        self.released = {}
        self.asked_on, self.unheard = None, []

    def known_at(self) -> set[int]:
        """The nodes that may have something of this ticket: its bid, or where to wake it."""
        return self.told | {node for node, channel in enumerate(self.channels) if channel}
