"""What a replica and the live page say to each other, and the replicas among themselves: JSON.

Moments are seconds since 1970 by the replica's clock. Fields with their default value are left out.
"""

from __future__ import annotations

from msgspec import Struct, field

from fencelock.engines.http.wire import WireOwner
from fencelock.service.health import Health


class Entry(Struct, frozen=True, omit_defaults=True):
    """Something that a replica saw happen to a name."""

    time: float
    event: str
    """granted, released, silent, lost, gave up, broken, refused write. A text: a newer replica may know
    another one."""
    replica: str
    """The replica that saw it."""
    owner: WireOwner | None = None
    """Who waited or held. Unknown for a break and for a refused write."""
    fence: str = ""
    waited: float | None = None
    held_for: float | None = None
    abandoned: bool = False
    """Of a grant: the holder before did not release."""
    reason: str = ""
    """Of a loss: expired, evicted."""
    by: str = ""
    """Of a break: the principal."""
    newest: str = ""
    """Of a refused write: the fence of the holder at that time; 0 if there was none."""


class Replica(Struct, frozen=True, omit_defaults=True):
    """A replica that was asked for the history of a name."""

    replica: str = ""
    """Its id; empty if it was not reached."""
    url: str | None = None
    """None: this replica."""
    reached: bool = False
    detail: str = ""
    """Why it was not reached."""
    since: float | None = None
    """It remembers what it has seen since then."""


class Points(Struct, frozen=True, omit_defaults=True):
    """Samples of a replica, oldest first. Each list has one value for each sample; None: nothing happened."""

    time: list[float] = []
    """The end of the interval that the sample is about."""
    wait_p50: list[float | None] = []
    """Seconds that the callers waited who were granted a lock."""
    wait_p99: list[float | None] = []
    grants: list[float] = []
    """Per second."""
    waiters: list[int] = []
    """At this moment."""
    lost: list[int] = []
    """Leases lost in this interval."""
    margin: list[float | None] = []
    """Seconds of the ttl that were left at a renewal. 1 % of the renewals had less."""
    engine_p50: list[float | None] = []
    """Seconds of a request to the engine that a client caused."""
    engine_p99: list[float | None] = []
    errors: list[int] = []
    """Such requests that failed in this interval."""


class ReplicaFigures(Struct, frozen=True, omit_defaults=True):
    """The figures of one replica."""

    replica: str = ""
    """Its id; empty if it was not reached."""
    url: str | None = None
    """None: this replica."""
    reached: bool = False
    detail: str = ""
    """Why it was not reached."""
    health: Health | None = None
    started: float | None = None
    points: Points = field(default_factory=Points)


class Figures(Struct, frozen=True, omit_defaults=True):
    """The last hour of all replicas that are known here."""

    time: float
    every: float
    """Seconds from one sample to the next."""
    replicas: list[ReplicaFigures]
