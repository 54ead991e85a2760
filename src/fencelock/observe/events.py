"""The events: small records of what happens to tickets, leases, engines and guards.

    Asked ──► Granted ──► Renewed … ──► Released
      │          ▲           │
      ├─► Queued ┘           ├─► Suspended ──► Resumed
      │                      └─► Lost
      └─► Refused, TimedOut, GaveUp or Failed

`Queued` comes only if the ticket has to wait. A ticket that is granted ends with exactly one `Released` or
`Lost`. No event contains a ticket's secret id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fencelock.core.ticket import Owner

RequestOutcome = Literal["ok", "not applied", "unknown", "cancelled"]
"""How a request ended. "not applied" and "unknown" are failures: did the engine certainly not act?"""

LossReason = Literal["expired", "evicted", "dropped", "loop ended", "held too long", "ran out"]
"""Why a lease was lost: its ttl passed without a confirmed renewal; the engine no longer knows it; its lease
object was deleted; its event loop has ended."""


@dataclass(slots=True)
class Event:
    """Something happened."""


@dataclass(slots=True)
class TicketEvent(Event):
    """Something happened to a ticket of this process."""

    name: str
    engine: str
    """The kind of engine, such as "redis"."""
    kind: str
    """How the ticket wants to hold the name: "lock", "read", "semaphore" or "rate"."""
    owner: Owner
    ticket: int
    """A number that connects the events about one ticket. It counts in this process only."""


@dataclass(slots=True)
class Asked(TicketEvent):
    """A caller wants a lock. Nothing has been sent yet."""

    timeout: float
    """How many seconds it is willing to wait; infinite without a limit."""


@dataclass(slots=True)
class Queued(TicketEvent):
    """The name is not free, and the ticket waits for it."""


@dataclass(slots=True)
class Granted(TicketEvent):
    """The caller has the lease."""

    waited: float
    """Seconds since it asked."""
    fence: int
    abandoned: bool
    """Whether the previous holder did not release: its work may be half done."""


@dataclass(slots=True)
class Refused(TicketEvent):
    """The name was not free, and the caller did not want to wait."""

    waited: float


@dataclass(slots=True)
class TimedOut(TicketEvent):
    """The caller has waited for its whole timeout."""

    waited: float


@dataclass(slots=True)
class GaveUp(TicketEvent):
    """The caller was cancelled or interrupted before it had the lease."""

    waited: float


@dataclass(slots=True)
class Failed(TicketEvent):
    """The caller got an error instead of a lease."""

    waited: float
    error: str
    """The class of the error."""


@dataclass(slots=True)
class Renewed(TicketEvent):
    """The engine confirmed a renewal."""

    fence: int
    margin: float
    """Seconds that were left until the lease would have been lost."""


@dataclass(slots=True)
class Suspended(TicketEvent):
    """The engine did not answer a renewal. The lease is still held until its deadline."""

    fence: int
    remaining: float
    """Seconds until its deadline."""


@dataclass(slots=True)
class Resumed(TicketEvent):
    """The engine answers again, and the lease was not lost."""

    fence: int


@dataclass(slots=True)
class HeldLong(TicketEvent):
    """The lease is held for longer than its `warn_after`. Comes once per lease."""

    fence: int
    held_for: float
    stack: str
    """Where it was acquired, as in a traceback."""


@dataclass(slots=True)
class Lost(TicketEvent):
    """The lease can't be trusted any more, and its holder has not released it."""

    fence: int
    held_for: float
    reason: LossReason


@dataclass(slots=True)
class Released(TicketEvent):
    """The holder has released the lease."""

    fence: int
    held_for: float
    closed: bool
    """Whether the end of the client or of the program released it, and not its holder."""


@dataclass(slots=True)
class Broken(Event):
    """This program took a lock from its holder."""

    name: str
    engine: str
    owner: Owner
    """The program that broke it."""
    fence: int = 0
    """The fence of the holder, or of the first of several. 0: not known."""


@dataclass(slots=True)
class StaleFence(Event):
    """A guard refused a write of a stale holder."""

    name: str
    guard: str
    """The kind of guard, such as "sql"."""
    given: int
    newest: int


@dataclass(slots=True)
class FenceFell(Event):
    """A lease got a fence that is not above one which this client had seen before it asked.

    This must never happen. The engine has lost its memory, or a backup of it was restored.
    """

    name: str
    engine: str
    fence: int
    newest: int
    """The highest fence seen before."""


@dataclass(slots=True)
class Paused(Event):
    """This process stood still while it held leases or waited.

    The keeper woke up much later than it wanted to: the process or the machine was stopped, the event loop
    was blocked, or a thread did not let go of the interpreter.
    """

    engine: str
    seconds: float
    """How much too late the keeper was."""


@dataclass(slots=True)
class EngineRequest(Event):
    """A request to an engine has ended."""

    engine: str
    operation: str
    """A method of the engine's contract, such as "enter"."""
    outcome: RequestOutcome
    seconds: float
