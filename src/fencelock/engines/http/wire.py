"""What client and service say to each other: JSON, checked by msgspec.

The client opens one *line* to the service: a WebSocket on `PATH` with the subprotocol `SUBPROTOCOL`. Each
message is one JSON text.

    service → client    Hello                        first, once: who answers, and the engine's traits
    client → service    Request(seq, act)            any number at once, answered in any order
    service → client    Reply(seq, …)                exactly one for each request
    service → client    Wake(id, …)                  after `Enter` was answered WAITING: once for that ticket

A ticket that waits is parked by the service itself. So a hand-off is one push. After its `Wake` a ticket is
not parked any more: the client enters again if it still has to wait. `Leave` and `Unpark` end it as well.

The same acts are `POST /v1/enter`, `/v1/renew` and so on, for clients without a line: the body is the act,
the answer is the field of the reply. There `Park` waits for the wake-up of a ticket.

Unknown fields are ignored, so versions N and N±1 understand each other. Fences are strings, because
JavaScript and jq round numbers above 2^53. An infinite time is left out, because JSON has no infinity.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from fencelock.core.durations import MAX_KEEP, MAX_TTL, MIN_TTL
from fencelock.core.errors import Outcome
from fencelock.core.ticket import (
    ALONE,
    Departure,
    Holder,
    Inspection,
    Owner,
    Place,
    Share,
    Standing,
    Ticket,
    Waiter,
)
from fencelock.engines.contract import Traits

PATH = "/v1/line"
SUBPROTOCOL = "fencelock.v1"
GOING_AWAY = 1001
"""The code with which a service closes a line that it drains: ask elsewhere."""

MAX_MESSAGE = 4 * 2**20
"""The size of the largest message, in bytes."""

MAX_TICKETS = 5_000
"""The number of tickets in one act at the most."""

# For Python, `$` is also before a line break at the end. In JSON Schema it is not.
_END = r"$(?!\n)"

FenceText = Annotated[str, Meta(pattern=r"^[0-9]{1,18}" + _END)]
"""A fence: 18 digits are far above all clocks in microseconds, and below 2^63."""
Name = Annotated[str, Meta(min_length=1, max_length=512)]
Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}" + _END)]
Seconds = Annotated[float, Meta(gt=0, le=3600)]


class WireShare(Struct, frozen=True, omit_defaults=True):
    """A `Share`."""

    group: Annotated[str, Meta(min_length=1, max_length=32)]
    weight: Annotated[int, Meta(ge=0, lt=2**31)] = 1
    permits: Annotated[int, Meta(ge=1, lt=2**31)] = 1

    def unpack(self) -> Share:
        return Share(self.group, self.weight, self.permits)


class WireOwner(Struct, frozen=True, omit_defaults=True):
    """An `Owner`."""

    host: Annotated[str, Meta(min_length=1, max_length=253, pattern=r"^[!-~]+" + _END)]
    pid: Annotated[int, Meta(ge=0, lt=2**31)]
    label: Annotated[str, Meta(max_length=200)] = ""
    data: Annotated[str, Meta(max_length=65_536)] = ""

    def unpack(self) -> Owner:
        return Owner(self.host, self.pid, self.label, self.data)


class WireTicket(Struct, frozen=True, omit_defaults=True):
    """A `Ticket`."""

    name: Name
    id: Id
    ttl: Annotated[float, Meta(ge=MIN_TTL, le=MAX_TTL)]
    owner: WireOwner
    share: WireShare | None = None
    floor: FenceText = "0"

    @classmethod
    def pack(cls, ticket: Ticket) -> WireTicket:
        name, id, ttl, owner, share, floor = ticket
        shared = None if share is ALONE or not share.group else WireShare(*share)
        return cls(name, id, ttl, WireOwner(*owner), shared, str(floor) if floor else "0")

    def unpack(self) -> Ticket:
        share = ALONE if self.share is None else self.share.unpack()
        return Ticket(self.name, self.id, self.ttl, self.owner.unpack(), share, int(self.floor))


class WireStanding(Struct, frozen=True, omit_defaults=True):
    """A `Standing`."""

    place: Place
    fence: FenceText = "0"
    abandoned: bool = False
    recheck: float | None = None

    @classmethod
    def pack(cls, standing: Standing) -> WireStanding:
        place, fence, abandoned, recheck = standing
        return cls(place, str(fence), abandoned, None if recheck == math.inf else recheck)

    def unpack(self) -> Standing:
        recheck = math.inf if self.recheck is None else self.recheck
        return Standing(self.place, int(self.fence), self.abandoned, recheck)


class WireContender(Struct, frozen=True, omit_defaults=True):
    """A `Holder` or a `Waiter`, as people may see it: without its id."""

    owner: WireOwner
    fence: FenceText
    since: float
    """Seconds for which it has been holding or waiting."""
    expires_in: float
    share: WireShare | None = None

    @classmethod
    def pack(cls, contender: Holder | Waiter) -> WireContender:
        owner, fence, since, expires_in, share = contender
        shared = WireShare(*share) if share.group else None
        return cls(WireOwner(*owner), str(fence), since, expires_in, shared)

    def unpack(self, kind: type[Holder] | type[Waiter]) -> Holder | Waiter:
        share = ALONE if self.share is None else self.share.unpack()
        return kind(self.owner.unpack(), int(self.fence), self.since, self.expires_in, share)


class WireInspection(Struct, frozen=True):
    """An `Inspection`."""

    name: str
    holders: list[WireContender]
    waiters: list[WireContender]
    waiting: int
    fence: FenceText
    abandoned: bool

    @classmethod
    def pack(cls, seen: Inspection) -> WireInspection:
        return cls(
            seen.name,
            [WireContender.pack(each) for each in seen.holders],
            [WireContender.pack(each) for each in seen.waiters],
            seen.waiting,
            str(seen.fence),
            seen.abandoned,
        )

    def unpack(self) -> Inspection:
        holders = tuple(each.unpack(Holder) for each in self.holders)
        waiters = tuple(each.unpack(Waiter) for each in self.waiters)
        return Inspection(
            self.name,
            holders,  # type: ignore[arg-type]
            waiters,  # type: ignore[arg-type]
            self.waiting,
            int(self.fence),
            self.abandoned,
        )


# --- what a client asks for: the operations of engines/contract.py


class Act(Struct, frozen=True, tag_field="op", tag=str.lower, omit_defaults=True):
    """An operation of the engine. `timeout` is how many seconds the client will wait for the answer."""


class Enter(Act, frozen=True):
    """Put tickets into their queues; several only with `if_free`. Answered by `standings`."""

    tickets: Annotated[list[WireTicket], Meta(min_length=1, max_length=MAX_TICKETS)]
    timeout: Seconds
    if_free: bool = False
    require: str = ""
    """With "correctness": refuse, if the engine promises less."""


class Renew(Act, frozen=True):
    """Extend tickets. Answered by `standings`; None for a ticket that the engine did not answer for."""

    tickets: Annotated[list[WireTicket], Meta(min_length=1, max_length=MAX_TICKETS)]
    timeout: Seconds


class Leave(Act, frozen=True):
    """Take a ticket out of its queue. Answered by `done`: whether it was there."""

    ticket: WireTicket
    timeout: Seconds
    departure: Departure = Departure.RELEASED


class Park(Act, frozen=True):
    """Wait until a waiting ticket should look again. Answered by `standings`: one, or None.

    On a line it is needed only by a client that has lost the wake-up: the service parks by itself.
    """

    ticket: WireTicket
    timeout: Seconds


class Unpark(Act, frozen=True):
    """The client will not wait for this ticket any more. Answered by `done`."""

    id: Id


class Evict(Act, frozen=True):
    """Take out all holders of a name. Answered by `done`: whether there was one."""

    name: Name
    timeout: Seconds


class Remember(Act, frozen=True):
    """Store a note under a ticket that holds. Answered by `done`."""

    ticket: WireTicket
    text: Annotated[str, Meta(max_length=2**20)]
    keep: Annotated[float, Meta(ge=MIN_TTL, le=MAX_KEEP)]
    timeout: Seconds


class Recall(Act, frozen=True):
    """The note of a name. Answered by `text`; None if there is none."""

    name: Name
    timeout: Seconds


class Inspect(Act, frozen=True):
    """Who holds and who waits. Answered by `seen`."""

    name: Name
    timeout: Seconds
    limit: Annotated[int, Meta(ge=0, le=10_000)] = 0


class Names(Act, frozen=True):
    """The names that match a pattern. Answered by `names`."""

    timeout: Seconds
    pattern: Annotated[str, Meta(max_length=512)] = "*"


class Ping(Act, frozen=True):
    """Does the engine answer now? Answered by `done`. Not asked in a request of its own: see `/v1/health`."""

    timeout: Seconds


class Diagnose(Act, frozen=True):
    """What a lock on the engine is good for. Answered by `diagnosis`. Not asked in a request of its own."""

    timeout: Seconds


_OfTickets = Enter | Renew | Leave | Park | Unpark | Remember
AnyAct = _OfTickets | Evict | Recall | Inspect | Names | Ping | Diagnose


class Request(Struct, frozen=True):
    """An act on a line, with a number of the client's choice."""

    seq: int
    act: AnyAct


# --- what the service answers


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request failed, in the format of RFC 9457. docs/service/errors.md lists the types."""

    type: str
    title: str
    status: int
    detail: str = ""
    outcome: Outcome | None = None
    """Whether the engine may have acted. None if nothing was asked of it."""
    name: str | None = None
    retry_after: float | None = None
    longest_ttl: float | None = None
    holder: WireContender | None = None
    """Who holds the lock, if the caller may know it."""
    given: FenceText | None = None
    newest: FenceText | None = None
    """The fence that was refused, and that of the newest holder; "0" if nobody holds the lock."""


class Diagnosis(Struct, frozen=True, omit_defaults=True):
    """What `fencelock doctor` says of the engine behind a replica. It is examined once a minute at most."""

    replica: str
    time: float
    """Now, by the replica's clock, in seconds since 1970."""
    examined_at: float
    report: dict[str, Any] | None = None
    """As `fencelock doctor --json` prints it: docs/doctor.md. None if the engine could not be examined."""
    detail: str = ""
    """Why it could not."""


class Answer(Struct, frozen=True, omit_defaults=True):
    """The answer to an act: one of these fields, or `problem`."""

    standings: list[WireStanding | None] | None = None
    done: bool | None = None
    text: str | None = None
    seen: WireInspection | None = None
    names: list[str] | None = None
    diagnosis: Diagnosis | None = None
    problem: Problem | None = None


class Reply(Struct, frozen=True, tag=True, tag_field="kind"):
    """The answer to the request with this number."""

    seq: int
    answer: Answer


class Wake(Struct, frozen=True, tag=True, tag_field="kind", omit_defaults=True):
    """A waiting ticket should look; with a standing, it need not even ask."""

    id: str
    standing: WireStanding | None = None
    problem: Problem | None = None


class WireTraits(Struct, frozen=True):
    """The `Traits` of the engine behind the service."""

    guarantee: str
    fencing: str
    clock: str
    fifo: bool = True
    push: bool = True
    supports_sharing: bool = False
    supports_notes: bool = False
    accepts_floor: bool = True
    max_overstay: float = 0.0
    condition: str = ""
    portable: bool = False
    supports_rates: bool = False

    @classmethod
    def pack(cls, traits: Traits) -> WireTraits:
        return cls(*(getattr(traits, field) for field in cls.__struct_fields__))

    def unpack(self) -> Traits:
        fields = {field: getattr(self, field) for field in self.__struct_fields__}
        return Traits(**fields)


class Hello(Struct, frozen=True, tag=True, tag_field="kind"):
    """The first message of a service on a line, and the answer to `GET /v1/info`."""

    version: str
    engine: str
    """The kind of engine behind the service, such as "redis"."""
    traits: WireTraits
    replica: str
    """A random name of this process of the service."""


Message = Reply | Wake | Hello
"""What a service sends on a line."""

encode = msgspec.json.Encoder().encode
decode_request = msgspec.json.Decoder(Request).decode
decode_message = msgspec.json.Decoder(Message).decode
