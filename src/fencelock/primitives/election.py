"""Leader election: the lock on a name is the office, its fence the term, its owner's note the value.

Whoever wants to know who leads waits for a *bell*: a second name, on which the leader stands as long as
nothing changes. It leaves when it resigns or says something new, and is taken out when it dies; whoever
waits behind it is woken by that, as by any release.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.lease import LeaseState
from fencelock.core.names import check_name
from fencelock.core.ticket import ALONE, READING, Owner, Ticket
from fencelock.io.blocking import run
from fencelock.primitives.blocks import (
    DEFAULT,
    AsyncBlocks,
    BlockingBlocks,
    Blocks,
    Undo,
    _Default,
    undo_all,
)
from fencelock.primitives.keeper import RENEW_AT
from fencelock.primitives.kept import WITHDRAWN, Kept
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import BaseLock
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import LEAST_TIMEOUT, new_id, obtain, stand, withdraw

log = logging.getLogger("fencelock")

MAX_VALUE = 1000
_SOON = 0.02
"""Seconds after which to look again for a leader that has not put up its bell yet, at first."""

R = TypeVar("R")


class Leader(NamedTuple):
    """Who leads."""

    value: str
    """What it has proclaimed, such as its address."""
    term: int
    """Grows with every leader: it is the fence of the leader's lease."""
    owner: Owner


class _News(Exception):
    """Another leader, or none."""

    def __init__(self, leader: Leader | None) -> None:
        self.leader = leader


def check_value(value: str) -> str:
    """The value, or an error that says what it may be."""
    if not isinstance(value, str):
        raise TypeError(f"a leader's value must be a str, not {type(value).__name__}")
    if len(value) > MAX_VALUE or not value.isprintable():
        raise ValueError(f"a leader's value must be at most {MAX_VALUE} printable characters")
    return value


class _BaseTerm(BaseLease):
    """What a term of office is, in both worlds: a lease, and a ticket that stands on the bell."""

    _bell: str
    _standing: Kept | None

    def _begin(self, bell: str) -> None:
        self._bell = bell
        self._standing = None
        # Should the term be lost, the observers hear of it at once.
        self._on_loss(self._leave_bell)

    async def _announce(self, undo: list[Undo]) -> None:
        """Wake the observers, and stand on the bell until there is something new."""
        keeper, term = self._keeper, self._kept.ticket
        ticket = Ticket(self._bell, new_id(), term.ttl, term.owner._replace(data=""))
        kept = Kept(ticket, object(), self._kept.flexible)
        undo.append(kept)
        before, self._standing = self._standing, kept
        if before is not None:
            undo.append(before)
            if before.reason is None:
                await withdraw(keeper, before, LEAST_TIMEOUT)
        await stand(keeper, kept)
        if self._standing is not kept or kept.reason is not None or self._kept.reason is not None:
            keeper.give_up(kept, WITHDRAWN)  # there is something newer, or the term has ended

    def _leave_bell(self) -> None:
        if self._standing is not None:
            self._keeper.give_up(self._standing, WITHDRAWN)

    async def _release(self) -> None:
        try:
            await super()._release()
        except BaseException:
            self._leave_bell()
            raise
        if self._standing is not None and self._standing.reason is None:
            await withdraw(self._keeper, self._standing, LEAST_TIMEOUT)
        self._leave_bell()  # in case `_announce` was interrupted while it left

    def _give_up(self) -> None:
        super()._give_up()
        self._leave_bell()


class Term(_BaseTerm, Lease):
    """A lease on an office. Its fence is the number of the term; its release is the resignation."""


class AsyncTerm(_BaseTerm, AsyncLease):
    """A lease on an office. Its fence is the number of the term; its release is the resignation."""


T = TypeVar("T", bound=_BaseTerm)


class BaseElection(Blocks[T]):
    """What an election is, in both worlds: one candidate's view of it."""

    def __init__(self, make: Callable[[str], BaseLock[Any]], value: str) -> None:
        self._make = make
        self._value = check_value(value)
        office = make(value)
        super().__init__(office._keeper)
        self.name = office.name
        self._bell = check_name(f"{office.name} (bell)")
        self._ttl, self._flexible = office._ttl, office._flexible
        self._owner = office._owner
        self._term: T | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _office(self) -> Any:
        """The lock that makes its holder the leader."""
        if self._term is not None and self._term._kept.reason is None:
            raise FencelockError(f"this candidate leads {self.name!r} already", name=self.name)
        return self._make(self._value)

    async def _elected(self, term: T, undo: list[Undo]) -> T:
        term._begin(self._bell)
        try:
            await term._announce(undo)
        except EngineError as error:  # the observers look from time to time as well
            log.warning("could not announce the leader of %r: %s", self.name, error)
        term.check()  # it may have taken long
        self._term = term
        return term

    def _in_open_block(self, term: T) -> T:
        """Let a block that is open give back this term, if the one it began with has ended."""
        if self._open:
            self._open[-1] = term
        return term

    async def _leader(self) -> Leader | None:
        engine = self._keeper.engine
        seen = await engine.inspect(self.name, limit=0, timeout=REQUEST_TIMEOUT)
        if not seen.holders:
            return None
        holder = seen.holders[0]
        return Leader(holder.owner.data, holder.fence, holder.owner._replace(data=""))

    async def _proclaim(self, value: str, undo: list[Undo]) -> None:
        self._value = check_value(value)
        term = self._term
        if (
            term is not None and not term._left
        ):  # else it will be said when this candidate is elected
            owner = term.owner._replace(data=value)
            await term._enter_again(term._kept.ticket._replace(owner=owner))
            await term._announce(undo)

    async def _change(
        self,
        known: Leader | None,
        undo: list[Undo],
        over: Callable[[], bool] = lambda: False,
    ) -> Leader | None:
        """Wait until somebody else leads, the leader says something else, or nobody leads."""
        keeper = self._keeper
        pause = Backoff(_SOON, self._ttl * RENEW_AT, keeper.io.random)
        share = READING if keeper.engine.traits.supports_sharing else ALONE

        async def look(_: Kept) -> float:
            leader = await self._leader()
            if leader != known:
                raise _News(leader)
            return math.inf

        while not over():
            keeper.verify()
            ticket = Ticket(self._bell, new_id(), self._ttl, self._owner, share)
            kept = Kept(ticket, object(), self._flexible)
            undo[:] = [kept]
            try:
                # First join the queue, then look, then sleep: nothing can happen in between.
                if await obtain(keeper, kept, self._ttl, look):
                    await withdraw(keeper, kept, LEAST_TIMEOUT)
                    await look(kept)
                    await keeper.io.event().wait(pause.next())  # there is no bell yet
                else:
                    pause.reset()
            except _News as news:
                return news.leader
            except EngineError as error:
                log.warning("can't observe %r at present: %s", self.name, error)
                await keeper.io.event().wait(pause.next())
        return known

    async def _report(self, tell: Callable[[Leader | None], Any], over: Callable[[], bool]) -> None:
        """Tell somebody of every change, until it is over or the client is closed."""
        leader: Leader | None = None
        while not over():
            try:
                change = await self._change(leader, [], over)
            except FencelockError:
                return
            if change != leader:
                leader = change
                try:
                    tell(leader)
                except Exception:
                    log.exception("the new_leader callback for %r failed", self.name)


class Election(BaseElection[Term], BlockingBlocks[Term]):
    """One candidate in an election. `with election as term:` campaigns, leads and resigns."""

    def campaign(self, timeout: float | _Default | None = DEFAULT) -> Term:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        return self._in_open_block(self._acquire(timeout))

    def _acquired(self, undo: list[Undo], timeout: float | _Default | None = DEFAULT) -> Term:
        lease = self._office()._acquired(undo, timeout)
        return run(self._elected(Term(self._keeper, lease._kept), undo))

    def _undoing(self, act: Callable[[list[Undo]], Coroutine[Any, Any, R]]) -> R:
        """Do something with tickets of its own, and undo it if it is interrupted."""
        undo: list[Undo] = []
        try:
            return run(act(undo))
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    def leader(self) -> Leader | None:
        """Who leads at this moment."""
        return run(self._leader())

    def observe(self) -> Iterator[Leader | None]:
        """Who leads now, then every change, as it comes; None while nobody leads.

        Changes that follow one another faster than they are read may be seen as one; an older one never
        comes after a newer one.
        """
        leader = self.leader()
        while True:
            yield leader
            leader = self._undoing(partial(self._change, leader))

    def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        self._undoing(partial(self._proclaim, value))

    def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Nothing happens if not elected."""
        term = self._term
        if term is not None:
            try:
                term.release()
            except BaseException:
                term._give_up()
                raise

    def lead(
        self,
        started: Callable[[Term], Any],
        stopped: Callable[[Term], Any] | None = None,
        new_leader: Callable[[Leader | None], Any] | None = None,
    ) -> Any:
        """Campaign, lead, resign. `started` does the work: it is called with the term and should end soon
        when that is lost. `stopped` is called once, when the work has ended or, in another thread, at
        once when the term is lost. `new_leader` hears of every change meanwhile, in another thread."""
        over = self._keeper.io.event()
        term: Term | None = None
        try:
            if new_leader is not None:
                self._keeper.io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
            with self as term:
                if stopped is not None:
                    term._on_loss(partial(stopped, term))
                return started(term)
        finally:
            over.set()
            if stopped is not None and term is not None and term.state is LeaseState.RELEASED:
                stopped(term)


class AsyncElection(BaseElection[AsyncTerm], AsyncBlocks[AsyncTerm]):
    """One candidate in an election. `async with election as term:` campaigns, leads and resigns."""

    async def campaign(self, timeout: float | _Default | None = DEFAULT) -> AsyncTerm:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        lease = await self._office().acquire(timeout)
        term = AsyncTerm(self._keeper, lease._kept)
        term._cancels = lease._cancels
        undo: list[Undo] = [lease._kept]
        try:
            return self._in_open_block(await self._elected(term, undo))
        except BaseException:
            undo_all(self._keeper, undo)
            raise

    _acquire = campaign  # for `async with`

    async def leader(self) -> Leader | None:
        """Who leads at this moment."""
        return await self._leader()

    async def observe(self) -> AsyncIterator[Leader | None]:
        """Who leads now, then every change, as it comes; None while nobody leads.

        Changes that follow one another faster than they are read may be seen as one; an older one never
        comes after a newer one.
        """
        leader = await self._leader()
        while True:
            yield leader
            leader = await self._change(leader, [])

    async def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        await self._proclaim(value, [])

    async def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Nothing happens if not elected."""
        if self._term is not None:
            await self._term.release()

    async def lead(
        self,
        started: Callable[[AsyncTerm], Coroutine[Any, Any, R]],
        stopped: Callable[[AsyncTerm], Any] | None = None,
        new_leader: Callable[[Leader | None], Any] | None = None,
    ) -> R:
        """Campaign, lead, resign. `started` does the work: it is called with the term, and cancelled when
        that is lost. `stopped`, a plain function, is called once when the work has ended or the term is
        lost; `new_leader`, likewise plain, hears of every change meanwhile."""
        import asyncio  # takes long, and most programs that block never need it

        over = self._keeper.io.event()
        term: AsyncTerm | None = None
        try:
            if new_leader is not None:
                self._keeper.io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
            async with self as term:
                work = asyncio.ensure_future(started(term))
                term._on_loss(work.cancel)
                if stopped is not None:
                    term._on_loss(partial(stopped, term))
                try:
                    return await work
                except asyncio.CancelledError:
                    if not work.done():
                        work.cancel()
                    term.check()  # LeaseLost, if that is why
                    raise
        finally:
            over.set()
            if stopped is not None and term is not None and term.state is LeaseState.RELEASED:
                stopped(term)
