"""The specification of an engine: a leased, ordered queue of tickets per name.

To write an engine, or to trust an engine, you need only this file and `core/admission.py`. `core/queue.py`
is the same specification as a program that runs. The conformance suite compares every engine with it.

Rules for every operation:

- **Idempotent by id.** If a reply was lost, the caller sends the request again, and it means the same thing.
- **One round trip.** As the queue grows, the work grows with its logarithm at most.
- **A time limit.** Within `timeout` seconds the operation answers, or raises `EngineError`. The error's
  `outcome` is "not applied" only if the engine can't have acted. A request that may have been applied is
  never sent again without the caller.
- **The engine's time.** A ticket expires `ttl` seconds after the engine last heard of it, and never sooner
  than promised before: a late request with a shorter ttl takes no time away. The ticket of a rate has its ttl
  only while it waits. It expires `share.lasts` seconds after its admission, whichever request admitted it,
  and no request changes that any more.
- **Cancellation at any await.** The operation leaves no connection and no task behind. The caller then
  sends `leave`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from fencelock.core.durations import DEFAULT_TTL, Duration, check_ttl
from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket

if TYPE_CHECKING:
    from fencelock.engines.diagnosis import Server
    from fencelock.observe.audience import Audience

NO_SHARING = (
    "this engine has the mutex only. Read-write locks and semaphores need an engine with a queue: "
    "sqlite://, redis://, etcd://, zookeeper://, postgresql:// or mysql://"
)

NO_RATES = (
    "this engine can't limit a rate: it has no clock of its own by which permits expire, or no tickets that "
    "share a name. Use memory://, sqlite://, redis://, postgresql:// or mysql://, or a lock service in front "
    "of one of them"
)

NOT_PORTABLE = (
    "a lease of this engine belongs to the connection or the session of the process that acquired it, and "
    "can't be handed to another one: use redis://, postgresql://, mysql://, sqlite:// or etcd://, or a lock "
    "service in front of one of them"
)

UNSAFE = (
    "this engine can only promise an efficiency lock: in a failover, a restart or a clock jump two holders "
    "are possible. For a correctness lock use etcd:// or zookeeper://, or sqlite:// on one machine, or "
    "postgresql:// or mysql:// on one server whose clock is never set forward (traits.condition has the "
    "details); or keep this engine with purpose='efficiency' and let your storage check the fence"
)

REENTERED = (
    "a signal handler or a finalizer asked for a lock in the middle of another request of the same "
    "thread: let it set a flag, and ask outside of it"
)

PINGED = "fencelock-ping"
"""The name about which most engines are asked to see whether they answer. Nobody holds it."""

Guarantee = Literal["efficiency", "correctness"]


class Traits(NamedTuple):
    """What an engine promises, and what it does not. Only these decide which tests are skipped for it, and
    which requests of a user are refused."""

    guarantee: Guarantee
    """*efficiency*: now and then a lock has two holders. *correctness*: only a paused holder may still
    believe that it holds, and its fence is older; under the `condition`."""
    fencing: str
    """What makes fences grow, and what could make them fall."""
    clock: str
    """Whose clock decides that a ticket has expired."""
    fifo: bool = True
    """Whether tickets are admitted in the order in which they came."""
    push: bool = True
    """Whether a release wakes the next waiter. If not, waiters ask again and again."""
    supports_sharing: bool = False
    """Whether tickets of one group can hold together, as for readers and semaphores."""
    supports_rates: bool = False
    """Whether tickets of a rate expire exactly `Share.lasts` seconds after their admission, by a clock of the
    engine's own."""
    supports_notes: bool = False
    """Whether the engine can store a note for a name. The note outlives the holder."""
    accepts_floor: bool = True
    """Whether a new ticket's fence is above the ticket's floor. If not, the engine numbers by itself."""
    cross_process: bool = True
    """Whether two processes that open the same URL share the locks."""
    portable: bool = False
    """Whether a ticket belongs to the engine itself, and not to the instance that entered it. If so, another
    instance, in another process, can enter the same ticket again, renew it, park with it and take it out,
    and the ticket outlives the instance that entered it."""
    max_overstay: float = 0.0
    """Seconds for which a dead ticket may stay after its ttl, if no client watched it."""
    heartbeat: float | None = None
    """If set, nothing expires: a lock lasts as long as its connection, and a stopped holder keeps the lock.
    The client checks its connections each time so many seconds have passed."""
    fenced_while_waiting: bool = True
    """Whether a waiter has its fence already. If not, it waits in a queue of the server's own: it gets its
    fence when it is admitted, and hears of that a moment later."""
    condition: str = ""
    """What *correctness* depends on, besides clocks whose rates differ by less than 1 %. The text follows
    the words "as long as". It is empty if there is nothing else, and for *efficiency*."""
    provisional: bool = False
    """Whether these are only assumptions: the engine learns its traits at the first contact. Until then it
    promises the least, and nothing is refused that it may be able to do."""

    @property
    def leases_expire(self) -> bool:
        """Whether a ticket that is not renewed ends by itself."""
        return self.heartbeat is None

    @property
    def default_ttl(self) -> float:
        """The ttl if the caller gives none. Without expiry: how long to trust a connection that does not
        answer. That is three heartbeats, because tickets are renewed after a third of their ttl."""
        return DEFAULT_TTL if self.heartbeat is None else 3 * self.heartbeat

    def check_ttl(self, ttl: Duration) -> float:
        """Return the ttl in seconds, or raise an error that says what a ttl must be."""
        if self.heartbeat is not None:
            raise Unsupported(
                "locks of this engine last as long as their connection, so there is no ttl: leave it "
                "out, or use postgresql:// or mysql://, whose leases expire"
            )
        return check_ttl(ttl)


class Engine(ABC):
    """One engine, opened for one io. Opening does no I/O."""

    traits: Traits
    label = "other"
    """The kind of engine, for people: "redis" and so on. The registry sets it."""
    required: Guarantee = "efficiency"
    """What the client needs. An engine with provisional traits that turns out to promise less refuses every
    ticket with `UnsafeEngine`, before anything is changed."""

    def label_of(self, name: str) -> str:
        """The label of the engine that keeps this name."""
        return self.label

    def parts(self) -> Sequence[Engine]:
        """The engines behind this one, if it only passes requests on; else itself."""
        return (self,)

    def observed(self, audience: Audience, now: Callable[[], float]) -> Engine:
        """The same engine, but it tells these observers of its requests. `now` is the io's clock."""
        from fencelock.engines.observed import ObservedEngine  # few programs need it

        return ObservedEngine(self, audience, now)

    @abstractmethod
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        """Put a ticket into the queue, and answer where it stands. If it is in the queue already, renew it.

        A new ticket gets a fence above all earlier fences of this name. If the engine accepts a floor, the
        fence is also above the ticket's floor. With `if_free` the ticket joins only if it is admitted at
        once; otherwise the answer is REFUSED. Expired tickets ahead are taken out. If the engine can't keep
        so long a ttl, it raises `Unsupported` with the longest possible ttl, and the ticket does not join.

        If the ticket is in the queue already, the given owner replaces its owner. Its share does not change,
        with one exception: a ticket that holds alone may join a group, though not a rate. That is how a
        writer turns reader.
        """

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        """Put tickets into several queues, each as with `if_free`, in one round trip if the engine can.

        After the first REFUSED the engine may answer REFUSED for all the rest without trying them.
        """
        standings: list[Standing] = []
        for ticket in tickets:
            standings.append(await self.enter(ticket, if_free=True, timeout=timeout))
            if standings[-1].place is Place.REFUSED:
                break
        return standings + [Standing(Place.REFUSED)] * (len(tickets) - len(standings))

    @abstractmethod
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        """Extend many tickets, holding or waiting, in one round trip.

        The answer is GONE for a ticket that is not in its queue, and None for a ticket whose part of the
        engine did not answer. A renewal never brings a ticket back, so it does no harm after the release.
        """

    @abstractmethod
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        """Take this ticket out of the queue, and wake exactly the waiters that this admits.

        Returns False if the ticket was not there. If it held alone, `departure` says whether the next holder
        finds the name abandoned. A ticket that shares a name does not change that: its end says nothing
        about the work of the other holders.
        """

    async def leave_all(self, tickets: Sequence[Ticket], *, timeout: float) -> list[bool]:
        """Take several released tickets out, each as with `leave`, in one round trip if the engine can.

        If it raises, some may be out already.
        """
        return [await self.leave(ticket, timeout=timeout) for ticket in tickets]

    @abstractmethod
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        """After `enter` has answered WAITING: sleep until a wake-up, or until a moment of the io's clock.

        Returns the standing if the wake-up contains it. None means: look again. A lost wake-up is no error,
        because the caller looks again in time. A broken connection is one: `EngineError`.
        """

    def unpark(self, ticket: Ticket) -> None:  # noqa: B027 - many engines keep nothing
        """Drop what `enter` has kept for `park`, because the caller will not park any more. Never blocks."""

    def interrupt(self, ticket: Ticket) -> None:  # noqa: B027 - an engine that polls needs none
        """Make the `park` of this ticket return soon: with None, or with an `EngineError` if necessary.

        Any thread may call this. It never blocks, and does nothing if no caller parks with this ticket.
        """

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        """Store a note for a name, for `keep` seconds of the engine's clock. It replaces the last note.

        Returns False and changes nothing if this ticket does not hold the name at that moment. Only engines
        with the trait `supports_notes` have `remember` and `recall`.
        """
        raise NotImplementedError

    async def recall(self, name: str, *, timeout: float) -> str | None:
        """The note of a name. None if there is none, or if its time is over."""
        raise NotImplementedError

    @abstractmethod
    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        """The holders and the first `limit` waiters of a name, at one moment."""

    @abstractmethod
    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        """The names with a holder or a waiter that match a pattern, sorted. This may scan everything."""

    async def candidates(self, *, timeout: float) -> AsyncIterator[list[str]]:
        """All names with a holder or a waiter, and perhaps some that are free by now, part by part.

        Each part costs little, so that a caller can take its time. `timeout` is for each part.
        """
        yield await self.names("*", timeout=timeout)

    @abstractmethod
    async def evict(self, name: str, *, timeout: float) -> bool:
        """Take out all holders. Returns False if there was none.

        A ticket that held alone counts as lost. When the answer comes, no evicted ticket holds any more.
        """

    async def ping(self, *, timeout: float) -> None:
        """Return if requests are answered now; `EngineError` if not.

        One cheap request that changes nothing, and needs no right that the engine does not need for locks.
        """
        await self.inspect(PINGED, limit=0, timeout=timeout)

    async def diagnose(self, *, timeout: float, probe: bool = False) -> Sequence[Server]:
        """What each server behind this engine says about itself, for `fencelock.doctor` to judge.

        It changes nothing, unless `probe` is set: then it may write what it needs, for example to learn a
        clock that can't be asked otherwise, and removes it again. `timeout` is for each request. A server
        that does not answer is described with its `failure`, and the others are examined nevertheless. What
        a server refuses to tell is noted, too: no right is needed that the engine does not need for locks.
        An engine that can't describe its servers returns none.
        """
        return ()

    @abstractmethod
    async def close(self) -> None:
        """Close all connections. The tickets stay as they are."""

    def abandon(self) -> None:  # noqa: B027 - most engines have nothing that goes on by itself
        """The event loop has ended before `close`. End what goes on without it, such as threads.

        Never blocks, and can't await anything.
        """
