"""Leader election: the lock on a name is the office, its fence is the term, its owner's data is the value.

An observer waits for the *bell*: a second name, in whose queue the leader stands as long as nothing changes.
The leader leaves that queue when it resigns or proclaims a new value, and expires there when it dies. That
wakes the observers that wait behind it, as any release does.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from fencelock.core.backoff import Backoff
from fencelock.core.durations import Duration
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
from fencelock.primitives.call_site import call_site
from fencelock.primitives.claim import Claim
from fencelock.primitives.lock import BaseLock
from fencelock.primitives.schedule import RENEW_AT
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.term import AsyncTerm, BaseTerm, Term
from fencelock.primitives.waiting import MIN_TIMEOUT, new_id, obtain, withdraw

log = logging.getLogger("fencelock.election")

MAX_VALUE = 1000
_FIRST_PAUSE = 0.02
"""Seconds after which to look again, at first, for a leader that does not stand at its bell yet."""

R = TypeVar("R")


class Leader(NamedTuple):
    """Who leads."""

    value: str
    """What the leader has proclaimed, such as its address."""
    term: int
    """The fence of the leader's lease: it grows with every leader."""
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


T = TypeVar("T", bound=BaseTerm)


class BaseElection(Blocks[T]):
    """What an election is, blocking or not: one candidate's view of it."""

    def __init__(self, make: Callable[[str], BaseLock[Any]], value: str) -> None:
        self._make = make
        self._value = check_value(value)
        office = make(value)
        super().__init__(office._contexts)
        self.name = office.name
        self._bell = check_name(f"{office.name} (bell)")
        self._ttl, self._flexible = office._ttl, office._flexible
        self._owner = office._owner
        self._term: T | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _office(self) -> Any:
        """The lock that makes its holder the leader."""
        claim = None if self._term is None else self._term._claim
        if claim is not None and claim.reason is None and not claim.context.foreign:
            raise FencelockError(f"this candidate leads {self.name!r} already", name=self.name)
        return self._make(self._value)

    async def _elected(self, term: T, undo: list[Undo]) -> T:
        term._begin(self._bell)
        try:
            await term._bell.ring(undo)
        except EngineError as error:  # the observers also look from time to time
            log.warning("could not announce the leader of %r: %s", self.name, error)
        term.check()  # it may have taken long
        term._site = call_site()
        self._term = term
        return term

    def _in_open_block(self, term: T) -> T:
        """Let an open block release this term, if the term it started with is over."""
        if self._open:
            self._open[-1] = term
        return term

    async def _leader(self) -> Leader | None:
        engine = self._contexts.here().engine
        seen = await engine.inspect(self.name, limit=0, timeout=REQUEST_TIMEOUT)
        if not seen.holders:
            return None
        holder = seen.holders[0]
        return Leader(holder.owner.data, holder.fence, holder.owner._replace(data=""))

    async def _proclaim(self, value: str, undo: list[Undo]) -> None:
        self._value = check_value(value)
        term = self._term
        # A candidate that is not elected yet proclaims the value when it is.
        if term is not None and not term._left:
            owner = term.owner._replace(data=value)
            await term._enter_again(term._claim.ticket._replace(owner=owner))
            await term._bell.ring(undo)

    async def _change(
        self,
        known: Leader | None,
        undo: list[Undo],
        over: Callable[[], bool] = lambda: False,
    ) -> Leader | None:
        """Wait until the leader or its value changes, or until there is no leader."""
        context = self._contexts.here()
        pause = Backoff(_FIRST_PAUSE, self._ttl * RENEW_AT, context.io.random)
        share = READING if context.engine.traits.supports_sharing else ALONE
        owner = context.owned(self._owner)

        async def look(_: Claim) -> float:
            leader = await self._leader()
            if leader != known:
                raise _News(leader)
            return math.inf

        while not over():
            context.verify()
            ticket = Ticket(self._bell, new_id(), self._ttl, owner, share)
            claim = Claim(context, ticket, object(), self._flexible, internal=True)
            undo[:] = [claim]
            try:
                # First join the queue, then look, then sleep: so no change is missed.
                if await obtain(claim, self._ttl, look):
                    await withdraw(claim, MIN_TIMEOUT)
                    await look(claim)
                    await context.io.event().wait(pause.next())  # no leader stands at the bell yet
                else:
                    pause.reset()
            except _News as news:
                return news.leader
            except EngineError as error:
                log.warning("can't observe %r at present: %s", self.name, error)
                await context.io.event().wait(pause.next())
        return known

    async def _report(self, tell: Callable[[Leader | None], Any], over: Callable[[], bool]) -> None:
        """Call `tell` with every change, until it is over or the client is closed."""
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

    def campaign(self, timeout: Duration | _Default | None = DEFAULT) -> Term:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        return self._in_open_block(self._acquire(timeout))

    def _acquired(self, undo: list[Undo], timeout: Duration | _Default | None = DEFAULT) -> Term:
        claim = self._office()._acquired(undo, timeout)._hand_over()
        return run(self._elected(Term(claim), undo))

    def _undoing(self, act: Callable[[list[Undo]], Coroutine[Any, Any, R]]) -> R:
        """Do something with claims of its own, and undo it if it is interrupted."""
        undo: list[Undo] = []
        try:
            return run(act(undo))
        except BaseException:
            undo_all(undo)
            raise

    def leader(self) -> Leader | None:
        """The leader at this moment, or None."""
        return run(self._leader())

    def observe(self) -> Iterator[Leader | None]:
        """The leader now, then every change as it comes; None while there is no leader.

        Changes that come faster than they are read may be seen as one. An older change never comes after a
        newer one.
        """
        leader = self.leader()
        while True:
            yield leader
            leader = self._undoing(partial(self._change, leader))

    def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        self._undoing(partial(self._proclaim, value))

    def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Without an office, nothing happens."""
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
        """Campaign, lead, resign. `started` does the work: it gets the term, and should return soon when that
        is lost. `stopped` is called once: when the work has ended, or at once, in another thread, when the
        term is lost. `new_leader` is called with every change meanwhile, in another thread."""
        io = self._contexts.here().io
        over = io.event()
        term: Term | None = None
        try:
            if new_leader is not None:
                io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
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

    async def campaign(self, timeout: Duration | _Default | None = DEFAULT) -> AsyncTerm:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        lease = await self._office().acquire(timeout)
        term = AsyncTerm(lease._hand_over())
        term._cancels = lease._cancels
        undo: list[Undo] = [term._claim]
        try:
            return self._in_open_block(await self._elected(term, undo))
        except BaseException:
            undo_all(undo)
            raise

    _acquire = campaign  # for `async with`

    async def leader(self) -> Leader | None:
        """The leader at this moment, or None."""
        return await self._leader()

    async def observe(self) -> AsyncIterator[Leader | None]:
        """The leader now, then every change as it comes: as `Election.observe`."""
        leader = await self._leader()
        while True:
            yield leader
            leader = await self._change(leader, [])

    async def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        await self._proclaim(value, [])

    async def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Without an office, nothing happens."""
        if self._term is not None:
            await self._term.release()

    async def lead(
        self,
        started: Callable[[AsyncTerm], Coroutine[Any, Any, R]],
        stopped: Callable[[AsyncTerm], Any] | None = None,
        new_leader: Callable[[Leader | None], Any] | None = None,
    ) -> R:
        """Campaign, lead, resign. `started` does the work: it gets the term, and is cancelled when that is
        lost. `stopped`, a plain function, is called once: when the work has ended or the term is lost.
        `new_leader`, also a plain function, is called with every change meanwhile."""
        import asyncio  # slow to import, and few blocking programs need it

        io = self._contexts.here().io
        over = io.event()
        term: AsyncTerm | None = None
        try:
            if new_leader is not None:
                io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
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
