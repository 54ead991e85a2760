"""What the live page is told, and what the replicas tell one another for it: JSON, made from these types.

Moments are seconds since 1970 by the replica's clock. The page knows how far its own clock is from that.
Fields that have their default value are left out.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from fencelock.engines.http.wire import FenceText, WireOwner, WireShare, WireTraits
from fencelock.service.health import Health


class Contender(Struct, frozen=True, omit_defaults=True):
    """A ticket that holds or waits."""

    owner: WireOwner
    fence: FenceText
    since: float
    until: float | None = None
    """When it expires unless it is renewed. None: never."""
    ttl: float | None = None
    """The longest time until its expiry that was seen. Engines don't say what the ttl is."""
    share: WireShare | None = None


class Row(Struct, frozen=True, omit_defaults=True):
    """One name, as the engine showed it at `looked_at`."""

    name: str
    holders: tuple[Contender, ...] = ()
    waiting: int = 0
    first: Contender | None = None
    """The waiter that waits for longest."""
    abandoned: bool = False
    fence: FenceText = "0"
    looked_at: float | None = None
    """None: it is in use, but nobody has looked at it yet."""
    usual: float | None = None
    """For how many seconds it is usually held, as far as this replica knows."""
    usual_of: Literal["name", "prefix"] = "name"
    """Whether that is known of the name itself, or of the names that begin like it."""


class Step(Struct, frozen=True, omit_defaults=True):
    """One transaction in a circle. The next one holds what it waits for, or waits for it in front."""

    transaction: str
    owner: WireOwner
    waits_for: str
    holds: tuple[str, ...] = ()


class Circle(Struct, frozen=True):
    """Transactions that wait for one another. The last one waits for the first one."""

    steps: tuple[Step, ...]


class Trouble(Struct, frozen=True):
    """The engine does not answer."""

    detail: str
    since: float


class Verdict(Struct, frozen=True):
    """What `fencelock doctor` says of the engine."""

    level: str
    text: str


class Hello(Struct, frozen=True):
    """The first event: who answers, and what the principal may do."""

    replica: str
    version: str
    time: float
    stream: str
    """Names this stream in `POST /v1/live/visible`."""
    engine: str
    traits: WireTraits
    principal: str
    rights: dict[str, Any]
    login: bool
    """Whether the service knows tokens."""
    verdict: Verdict | None = None


class Rows(Struct, frozen=True, omit_defaults=True):
    """Rows that have changed, and names that are free by now."""

    time: float
    cursor: str
    """A page that comes back gives it as `since`."""
    reset: bool = False
    """Whether the page must forget all rows first."""
    more: bool = False
    """Whether another part of the same answer follows at once."""
    rows: tuple[Row, ...] = ()
    gone: tuple[str, ...] = ()


class State(Struct, frozen=True, omit_defaults=True):
    """How much of all this is known, and since when."""

    time: float
    left_out: int = 0
    """Names beyond the limit of the board."""
    listed_at: float | None = None
    """The end of the last listing of all names. What is newer is known if it came through this replica."""
    unlooked: int = 0
    """Names that were listed, but not looked at yet."""
    list_took: float = 0.0
    """Seconds that this listing took. A large engine is listed slowly, in order not to burden it."""
    trouble: Trouble | None = None
    draining: bool = False
    circles: tuple[Circle, ...] = ()
    load: float = 0.0
    """The share of the engine's time that the pages of this replica have taken lately."""


class Draining(Struct, frozen=True):
    """This replica is about to end: ask another one."""


class Visible(Struct, frozen=True):
    """What a page shows at the moment. The poller looks at that first."""

    stream: Annotated[str, Meta(max_length=64)]
    names: Annotated[list[Annotated[str, Meta(max_length=512)]], Meta(max_length=200)]
    opened: Annotated[str, Meta(max_length=512)] | None = None


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


class Resume(Struct, frozen=True):
    """Where a page goes on."""

    since: Annotated[str, Meta(max_length=64)] = ""
    """The cursor of the last rows that it was told."""


class Local(Struct, frozen=True):
    """Who should answer."""

    local: bool = False
    """Whether to leave out what other replicas know."""


class Since(Local, frozen=True):
    """Which figures to tell."""

    since: float = 0.0
    """Only samples that were taken after this moment."""


class Detail(Struct, frozen=True, omit_defaults=True):
    """One name: its queue, and what happened to it."""

    time: float
    row: Row
    waiters: tuple[Contender, ...] = ()
    """The first of them."""
    may_break: bool = False
    trouble: str = ""
    """Why the engine could not be asked. The row is older then."""
    circles: tuple[Circle, ...] = ()
    history: list[Entry] = []
    replicas: list[Replica] = []
