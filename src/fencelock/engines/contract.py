"""The specification of an engine: a leased, ordered queue of tickets per name.

This file and `core/admission.py` are all one needs to know in order to write an engine or to trust
one. `core/queue.py` is the same thing as a runnable model, and the conformance suite holds every
engine to it.

Rules that hold for every operation:

- **Idempotent by id.** A request whose reply was lost can be sent again and means the same thing.
- **One round trip**, and no more work as the queue grows, beyond a logarithm.
- **Within `timeout` seconds** it answers or raises `EngineError`, whose `outcome` is "not applied"
  only if the engine can't have acted. It never retries behind the caller's back.
- **Time is the engine's**: a ticket expires `ttl` seconds after the engine last heard of it, and
  never sooner than was promised before: a late request with a shorter ttl takes no time away.
- **Cancelled at any await**, it leaves no connection and no task behind; the caller then sends `leave`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal, NamedTuple

from fencelock.core.durations import DEFAULT_TTL, check_ttl
from fencelock.core.errors import Unsupported
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket

NO_SHARING = (
    "this engine has the mutex only. Read-write locks and semaphores need one that keeps a queue: "
    "sqlite://, redis://, etcd://, zookeeper://, postgresql:// or mysql://"
)

REENTERED = (
    "a signal handler or a finalizer asked for a lock in the middle of another request of the same "
    "thread: let it set a flag, and ask outside of it"
)

Guarantee = Literal["efficiency", "correctness"]


class Traits(NamedTuple):
    """What an engine can and can't promise. Tests skip, and users are refused, by these alone."""

    guarantee: Guarantee
    """*efficiency*: now and then two holders are possible. *correctness*: only a paused one, and fenced,
    under the `condition`."""
    fencing: str
    """What keeps fences growing, and what could make them fall."""
    clock: str
    """Whose clock decides that a ticket has expired."""
    fifo: bool = True
    push: bool = True
    """Whether a waiter is woken by the release itself."""
    supports_sharing: bool = False
    """Whether tickets of one group can hold together, as readers and the holders of a semaphore do."""
    supports_notes: bool = False
    """Whether it can note something down for a name that outlives those who hold it."""
    accepts_floor: bool = True
    """Whether a newcomer's fence can be lifted above a given one, or the engine numbers by itself."""
    cross_process: bool = True
    """Whether two processes that open the same URL meet."""
    max_overstay: float = 0.0
    """Seconds that a dead ticket may outlive its ttl if nobody watched it."""
    heartbeat: float | None = None
    """If set, nothing expires: a lock lasts as long as its connection, which is asked this often, in
    seconds, whether it lives. A stopped holder keeps the lock."""
    fenced_while_waiting: bool = True
    """Whether those who wait have their fence already. If not, they wait in a queue of the server's own:
    the fence comes with the admission, and of that they hear a moment later."""
    condition: str = ""
    """What *correctness* rests on, besides clocks whose rates differ by less than 1 %: goes on after "as long
    as". Empty if on nothing else, and for *efficiency*."""

    @property
    def leases_expire(self) -> bool:
        """Whether a ticket that is not renewed ends by itself."""
        return self.heartbeat is None

    @property
    def default_ttl(self) -> float:
        """The ttl if none is asked for. Without expiry: how long to trust a connection that does not
        answer, which is three heartbeats, as tickets are renewed at a third of their ttl."""
        return DEFAULT_TTL if self.heartbeat is None else 3 * self.heartbeat

    def check_ttl(self, ttl: float) -> float:
        """The ttl as a float, or an error that says what a ttl must be; not every engine has one."""
        if self.heartbeat is not None:
            raise Unsupported(
                "locks of this engine last as long as their connection, so there is no ttl: leave it "
                "out, or use postgresql:// or mysql://, whose leases expire"
            )
        return check_ttl(ttl)


class Engine(ABC):
    """One engine, opened for one io. Opening does no I/O."""

    traits: Traits

    @abstractmethod
    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        """Join the queue and learn where one stands; if already in it, renew and look again.

        A newcomer gets a fence above all earlier ones of this name and, if the engine accepts a floor, above
        the ticket's floor. With `if_free` it joins only if it is admitted at once, else the answer is
        REFUSED. Expired tickets ahead are taken out. A ttl that it can't keep is
        `Unsupported`, with the longest one that it can; then the ticket did not join.

        One that is in the queue already gets its owner replaced by the one given. Its share stays as it
        is, except that one that holds alone may go over to a group: that is how a writer turns reader.
        """

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        """Join several queues, each as with `if_free`, in one round trip if the engine can.

        From the first that is REFUSED on, the rest may be REFUSED without having been asked for.
        """
        standings: list[Standing] = []
        for ticket in tickets:
            standings.append(await self.enter(ticket, if_free=True, timeout=timeout))
            if standings[-1].place is Place.REFUSED:
                break
        return standings + [Standing(Place.REFUSED)] * (len(tickets) - len(standings))

    @abstractmethod
    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        """Extend many tickets, holding or waiting, in one round trip; GONE for one that is not there,
        None for one whose part of the engine did not answer.

        Never brings a ticket back, so that a renewal that arrives after the release does no harm.
        """

    @abstractmethod
    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        """Take out this very ticket, and wake exactly those whom this admits. False: it was not there.

        If it held alone, `departure` says whether the next one finds the name abandoned. Those who share
        a name leave it as they found it: the end of one, whatever it was, says nothing about the others.
        """

    @abstractmethod
    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        """After `enter` answered WAITING: sleep until woken or until a moment of the io's clock.

        The standing, if the wake-up carried it; None means: look again. A lost wake-up is not an
        error (the caller looks again in time), a broken connection is: `EngineError`.
        """

    def unpark(self, ticket: Ticket) -> None:  # noqa: B027 - many engines keep nothing
        """Drop what `enter` kept for a `park` that will not come. Never blocks."""

    def interrupt(self, ticket: Ticket) -> None:  # noqa: B027 - whose park looks often needs none
        """Make a `park` of this client come back soon: with None, or an `EngineError` if it must be.

        Called from any thread, never blocks, and does nothing if nobody parks with this ticket.
        """

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        """Note something down for a name, for so many seconds by the engine's clock; replaces what was there.

        Only if this ticket holds the name at that moment, else False and nothing is changed. For engines
        with the trait `supports_notes`; so is `recall`.
        """
        raise NotImplementedError

    async def recall(self, name: str, *, timeout: float) -> str | None:
        """What was noted down for a name, unless its time is up."""
        raise NotImplementedError

    @abstractmethod
    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        """Who holds and who waits, the first `limit` waiters listed, at one moment."""

    @abstractmethod
    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        """The names that are held or waited for and match a pattern, sorted. May cost a full scan."""

    @abstractmethod
    async def evict(self, name: str, *, timeout: float) -> bool:
        """Take out all who hold; one that held alone counts as lost. False: there was none.

        Once it has answered, the name is free of them.
        """

    @abstractmethod
    async def close(self) -> None:
        """Give back connections. Tickets stay as they are."""

    def abandon(self) -> None:  # noqa: B027 - most engines have nothing that goes on by itself
        """The event loop has ended before `close`. End what goes on without it, such as threads.

        Never blocks, and can't await anything.
        """
