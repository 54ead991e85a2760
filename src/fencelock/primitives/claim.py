"""A claim: the client side of one ticket, as a state machine."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from math import inf
from typing import TYPE_CHECKING, Any

from fencelock.core.durations import deadline
from fencelock.core.lease import LeaseState, state_of
from fencelock.core.ticket import ADMITTED, WAITING, Departure, Standing, Ticket
from fencelock.io.contract import Event

if TYPE_CHECKING:
    from fencelock.primitives.context import Context
    from fencelock.primitives.sighting import Sighting

# Why a claim has ended.
RELEASED = "released"
DETACHED = "detached, for another process to go on with it"
WITHDRAWN = "withdrawn before it was held"
CLOSED = "its client was closed"
EXPIRED = "its ttl passed without a renewal that the engine confirmed"
RAN_OUT = "its ttl has passed, and with renew=False nobody renews it"
OVERHELD = "it was held for as long as its max_hold allows"
EVICTED = (
    "the engine no longer knows it: it expired there, was broken, or the engine lost its memory"
)
DROPPED = "its lease object was deleted without a release"
LOOP_ENDED = "its event loop has ended"
PROGRAM_ENDED = "its program has ended"


class State(Enum):
    """Where a claim stands, as far as this client knows."""

    OUTSIDE = "not in the queue"
    QUEUED = "in the queue"
    GRANTED = "admitted, but the caller does not have the lease yet"
    HELD = "the caller has the lease"
    ENDED = "over; `reason` says why"


OUTSIDE, QUEUED, GRANTED, HELD, ENDED = State


class Claim:
    """What this client knows of one of its tickets.

                  WAITING                ADMITTED                held
        OUTSIDE ───────────► QUEUED ─────────────────► GRANTED ────────► HELD
         │   ▲                 │                         │ ▲
         │   └── GONE, doubted ┴─────────────────────────┘ │
         └─────────────────── ADMITTED ────────────────────┘
        Every state ──── ended(reason) ────► ENDED

    The words in capitals are the engine's: in an answer (`answered`) or in a push (`woken`). Only the answer
    to a request to join brings a claim in from outside.

    Requests to join the queue are counted: `asked` before each one is sent, then `answered`, or `not_applied`
    if it certainly did not arrive. As long as one is `unanswered`, it may still reach the engine.

    A held claim ends only by `ended`. `answered` then returns the reason why the lease is lost, and the
    context ends it. Only these verbs change a claim, except for `depth`: a lease changes that itself, because
    no call may stand between the two steps of leaving (see `BaseLease._release`).
    """

    __slots__ = (
        "_on_lost",
        "abandoned",
        "answered_at",
        "caller",
        "context",
        "deadline",
        "depth",
        "fence",
        "fleeting",
        "flexible",
        "internal",
        "lost_event",
        "reason",
        "recheck_at",
        "sent_at",
        "sighting",
        "state",
        "suspended",
        "ticket",
        "unanswered",
        "was_held",
    )

    def __init__(
        self,
        context: Context,
        ticket: Ticket,
        caller: object,
        flexible: bool = False,
        internal: bool = False,
    ) -> None:
        self.context = context
        self.ticket = ticket
        self.caller = caller
        """The thread or task that asked for it."""
        self.flexible = flexible
        """Whether the caller did not ask for this ttl, so that a shorter one will do."""
        self.fleeting = False
        """Whether it is over for this client once it is admitted: the permit of a rate, which nobody renews
        or releases. What the engine says of it later is no news."""
        self.internal = internal
        """Whether it is no lock of the user's own: nobody is told of it, and its loss is no accident."""
        self.sighting: Sighting | None = None
        """Tells the observers, if there were any when the caller asked."""
        self.state = OUTSIDE
        self.reason: str | None = None
        self.was_held = False
        self.fence = 0
        self.abandoned = False
        self.suspended = False
        """Whether the last renewal was not answered."""
        self.unanswered = 0
        self.depth = 1
        """How many leases the caller has of it: more than one if it entered again."""
        self.deadline = -inf
        """Until when the lease can be trusted."""
        self.sent_at = self.answered_at = -inf
        """When the newest request that was answered was sent, and when its answer came."""
        self.recheck_at = inf
        """When to ask the engine again, if no push has come."""
        self.lost_event: Event | None = None
        self._on_lost: tuple[Callable[[], Any], ...] = ()

    @property
    def final(self) -> bool:
        """Whether it is held, and no renewal by the keeper moves its deadline."""
        return False

    @property
    def owed(self) -> bool:
        """Whether it is not renewed as a rule, but has to be once more, and now."""
        return False

    @property
    def overdue(self) -> str:
        """Why it is lost if its deadline has passed."""
        return EXPIRED

    def __repr__(self) -> str:
        return f"<Claim on {self.ticket.name!r}: {self.state.value}>"

    # --- asking, and what the engine says

    def asked(self) -> None:
        """A request to join the queue is about to be sent."""
        self.unanswered += 1

    def not_applied(self) -> None:
        """A request to join the queue did not reach the engine, for certain."""
        self.unanswered -= 1

    def answered(
        self, standing: Standing, sent: float, now: float, joining: bool = False
    ) -> str | None:
        """Take in the engine's answer to a request that was sent at `sent`; `joining`: to join the queue.

        Returns why a held lease is lost, or None. It is lost if its deadline has passed, if the ticket is
        gone, if a failover took back the admission, or if a late copy of an old request put the ticket into
        the queue again after it had left.
        """
        if joining:
            self.unanswered -= 1
        place, held = standing.place, self.state is HELD
        if held:
            if now >= self.deadline:
                return self.overdue
            if place is not ADMITTED or standing.fence != self.fence:
                # Two requests under way at once may be carried out in either order.
                return EVICTED if sent >= self.answered_at else None
        if sent < self.sent_at or self.state is ENDED:
            return None  # something newer is known already
        self.sent_at, self.answered_at = sent, now
        if place is ADMITTED or place is WAITING:
            if not held and (joining or self.state is not OUTSIDE):
                self.state = GRANTED if place is ADMITTED else QUEUED
            if place is ADMITTED:
                self.abandoned = standing.abandoned
            self.fence = standing.fence
            self.deadline = deadline(sent, self.ticket.ttl)
            self.recheck_at = sent + standing.recheck
            self.suspended = False
        elif not held and not (self.fleeting and self.state is GRANTED):
            self.state = OUTSIDE
            self.recheck_at = now + standing.recheck
        return None

    def woken(self, standing: Standing | None, now: float) -> bool:
        """Take in a push. False if it says nothing about this ticket: the caller must ask the engine."""
        if standing is None or standing.fence != self.fence or self.state is not QUEUED:
            return self.state is GRANTED
        if standing.place is ADMITTED:
            self.state, self.abandoned = GRANTED, standing.abandoned
        self.recheck_at = now + standing.recheck
        return True

    def doubted(self) -> None:
        """What is known of the ticket may be out of date: ask the engine before the next sleep."""
        if self.state is QUEUED or (self.state is GRANTED and not self.fleeting):
            self.state = OUTSIDE

    def unrenewed(self) -> None:
        """The engine did not answer a renewal."""
        self.suspended = True

    # --- holding and ending

    def held(self, now: float) -> None:
        """The caller has the lease now. Answers to requests that were sent before `now` are old news."""
        if self.state is not ENDED:
            self.state, self.was_held, self.answered_at = HELD, True, now

    def ended(self, reason: str) -> bool:
        """It is over. Only the first reason counts: returns False if there was one before."""
        if self.reason is not None:
            return False
        self.reason, self.state = reason, ENDED
        return True

    def departure(self, reason: str) -> Departure:
        """How the ticket leaves the queue if the claim ends for this reason."""
        if not self.was_held or reason == WITHDRAWN:
            return Departure.WITHDRAWN
        orderly = reason in (RELEASED, CLOSED, PROGRAM_ENDED)
        return Departure.RELEASED if orderly else Departure.LOST

    # --- telling a loss

    def call_when_lost(self, callback: Callable[[], Any]) -> None:
        """Add a callback for `callbacks`."""
        self._on_lost = (*self._on_lost, callback)

    def signal_when_lost(self, event: Event) -> Event:
        """Set this event when the lease is lost."""
        self.lost_event = event
        if self.reason not in (None, RELEASED, DETACHED):
            event.set()
        return event

    def callbacks(self) -> tuple[Callable[[], Any], ...]:
        """Set the event of a lost lease. Returns what to call: each callback only once."""
        if self.lost_event is not None:
            self.lost_event.set()
        callbacks, self._on_lost = self._on_lost, ()
        return callbacks

    # --- changes of the ticket

    def shorten(self, longest: float) -> bool:
        """Use the longest ttl that the engine can keep. False if the caller asked for another one."""
        if not self.flexible or self.ticket.ttl <= longest:
            return False
        self.ticket = self.ticket._replace(ttl=longest)
        return True

    def change_ttl(self, ttl: float, now: float) -> None:
        """Ask for another ttl from now on. Until the engine confirms it, trust the shorter of the two."""
        self.ticket = self.ticket._replace(ttl=ttl)
        self.deadline = min(self.deadline, deadline(now, ttl))

    def became(self, ticket: Ticket) -> None:
        """The engine knows the ticket with this share and owner from now on."""
        self.ticket = self.ticket._replace(share=ticket.share, owner=ticket.owner)

    # --- what the holder may believe

    def is_good(self) -> bool:
        """Whether the lease is held at this moment."""
        return self.state is HELD and self.context.io.now() < self.deadline

    def lease_state(self) -> LeaseState:
        """The state of the lease, by this moment's clock."""
        if self.reason in (RELEASED, DETACHED):
            return LeaseState.RELEASED
        now, lost = self.context.io.now(), self.reason is not None
        return state_of(now, self.deadline, suspended=self.suspended, lost=lost)
