"""Leader election: the lock on a name is the office, its fence the term, its owner's note the value.

Whoever wants to know who leads waits for a *bell*: a second name, on which the leader stands as long as
nothing changes. It leaves when it resigns or says something new, and is taken out when it dies; whoever
waits behind it is woken by that, as by any release.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError, FencelockError, LeaseLost
from fencelock.core.lease import LeaseState
from fencelock.core.names import check_name
from fencelock.core.ticket import ALONE, READING, Owner, Share, Ticket
from fencelock.io.blocking import run
from fencelock.primitives.keeper import RENEW_AT
from fencelock.primitives.kept import WITHDRAWN, Kept
from fencelock.primitives.lease import AsyncLease, BaseLease, Lease
from fencelock.primitives.lock import DEFAULT, BaseLock, _Default
from fencelock.primitives.sweeper import REQUEST_TIMEOUT
from fencelock.primitives.waiting import LEAST_TIMEOUT, new_id, obtain, stand, withdraw

log = logging.getLogger("fencelock")

MAX_VALUE = 1000
_SOON = 0.02
"""Seconds after which to look again for a leader that has not put up its bell yet, at first."""

L = TypeVar("L", bound=BaseLease)
T = TypeVar("T")


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


class BaseElection(Generic[L]):
    """What an election is, in both worlds: one candidate's view of it."""

    def __init__(self, make: Callable[[str], BaseLock[L]], value: str) -> None:
        self._make = make
        self._value = check_value(value)
        office = make(value)
        self.name = office.name
        self._bell = check_name(f"{office.name} (bell)")
        self._ttl, self._flexible = office._ttl, office._flexible
        self._owner = office._owner
        self._keeper = office._keeper
        self._term: L | None = None
        self._announced: Kept | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _office(self) -> Any:
        """The lock that makes one the leader."""
        if self._term is not None and self._term._kept.reason is None:
            raise FencelockError(f"this candidate leads {self.name!r} already", name=self.name)
        return self._make(self._value)

    async def _elected(self, term: L) -> L:
        self._term = term
        # Should the term be lost, those who observe hear of it at once.
        term._kept.on_lost = [*term._kept.on_lost, self._leave_bell]
        try:
            await self._announce()
        except EngineError as error:  # who observes looks from time to time as well
            log.warning("could not announce the leader of %r: %s", self.name, error)
        except BaseException:  # nobody will know that it leads
            self._term = None
            self._keeper.give_up(term._kept, WITHDRAWN)
            raise
        return term

    async def _announce(self) -> None:
        """Wake those who observe, and stand on the bell until there is something new."""
        kept, self._announced = self._announced, None
        if kept is not None:
            await withdraw(self._keeper, kept, LEAST_TIMEOUT)
        if self._term is not None:
            self._announced = kept = self._on_bell()
            await stand(self._keeper, kept)

    def _on_bell(self, share: Share = ALONE) -> Kept:
        ticket = Ticket(self._bell, new_id(), self._ttl, self._owner, share)
        return Kept(ticket, object(), self._flexible)

    def _leave_bell(self) -> None:
        kept, self._announced = self._announced, None
        if kept is not None:
            self._keeper.give_up(kept, WITHDRAWN)

    async def _leader(self) -> Leader | None:
        engine = self._keeper.engine
        seen = await engine.inspect(self.name, limit=0, timeout=REQUEST_TIMEOUT)
        if not seen.holders:
            return None
        holder = seen.holders[0]
        return Leader(holder.owner.note, holder.fence, holder.owner._replace(note=""))

    async def _proclaim(self, value: str) -> None:
        self._value = check_value(value)
        if self._term is not None:  # else it will be said when this candidate is elected
            owner = self._term.owner._replace(note=value)
            await self._term._enter_again(self._term._kept.ticket._replace(owner=owner))
            await self._announce()

    async def _resign(self) -> None:
        term, self._term = self._term, None
        try:
            if term is not None:
                await term._release()
        finally:
            await self._announce()

    async def _change(
        self, known: Leader | None, over: Callable[[], bool] = lambda: False
    ) -> Leader | None:
        """Wait until somebody else leads, the leader says something else, or nobody leads."""
        keeper = self._keeper
        pause = Backoff(_SOON, self._ttl * RENEW_AT, keeper.io.random)
        share = READING if keeper.engine.traits.sharing else ALONE

        async def look(_: Kept) -> float:
            leader = await self._leader()
            if leader != known:
                raise _News(leader)
            return math.inf

        while not over():
            keeper.verify()
            kept = self._on_bell(share)
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
                change = await self._change(leader, over)
            except FencelockError:
                return
            if change != leader:
                leader = change
                try:
                    tell(leader)
                except Exception:
                    log.exception("the new_leader callback for %r failed", self.name)


class Election(BaseElection[Lease]):
    """One candidate in an election. `with election as term:` campaigns, leads and resigns."""

    def campaign(self, timeout: float | _Default | None = DEFAULT) -> Lease:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        return run(self._elected(self._office().acquire(timeout)))

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
            leader = run(self._change(leader))

    def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        run(self._proclaim(value))

    def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Nothing happens if not elected."""
        run(self._resign())

    def lead(
        self,
        started: Callable[[Lease], Any],
        stopped: Callable[[Lease], Any] | None = None,
        new_leader: Callable[[Leader | None], Any] | None = None,
    ) -> Any:
        """Campaign, lead, resign. `started` does the work: it is called with the term and should end soon
        when that is lost. `stopped` is called once, when the work has ended or, in another thread, at
        once when the term is lost. `new_leader` hears of every change meanwhile, in another thread."""
        over = self._keeper.io.event()
        if new_leader is not None:
            self._keeper.io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
        try:
            term = self.campaign()
            if stopped is not None:
                term._kept.on_lost = [*term._kept.on_lost, lambda: stopped(term)]
            with self._leading(term, stopped):
                return started(term)
        finally:
            over.set()

    @contextmanager
    def _leading(self, term: Lease, stopped: Callable[[Lease], Any] | None) -> Iterator[None]:
        try:
            yield
        finally:
            try:
                self.resign()
            finally:
                if stopped is not None and term.state is LeaseState.RELEASED:
                    stopped(term)

    def __enter__(self) -> Lease:
        return self.campaign()

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            self.resign()
        except LeaseLost as lost:
            if error is None:
                raise
            error.add_note(f"Besides, {lost}")


class AsyncElection(BaseElection[AsyncLease]):
    """One candidate in an election. `async with election as term:` campaigns, leads and resigns."""

    async def campaign(self, timeout: float | _Default | None = DEFAULT) -> AsyncLease:
        """Wait until elected. The lease is the term: its fence is the term's number."""
        return await self._elected(await self._office().acquire(timeout))

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
            leader = await self._change(leader)

    async def proclaim(self, value: str) -> None:
        """Change the value, in the middle of the term if this candidate leads."""
        await self._proclaim(value)

    async def resign(self) -> None:
        """Give up the office; `LeaseLost` if it was lost before. Nothing happens if not elected."""
        await self._resign()

    async def lead(
        self,
        started: Callable[[AsyncLease], Coroutine[Any, Any, T]],
        stopped: Callable[[AsyncLease], Any] | None = None,
        new_leader: Callable[[Leader | None], Any] | None = None,
    ) -> T:
        """Campaign, lead, resign. `started` does the work: it is called with the term, and cancelled when
        that is lost. `stopped`, a plain function, is called once when the work has ended or the term is
        lost; `new_leader`, likewise plain, hears of every change meanwhile."""
        import asyncio  # takes long, and most programs that block never need it

        over = self._keeper.io.event()
        if new_leader is not None:
            self._keeper.io.spawn(self._report(new_leader, over.is_set), "fencelock-observer")
        try:
            term = await self.campaign()
            work = asyncio.ensure_future(started(term))
            ends = [lambda: stopped(term)] if stopped is not None else []
            term._kept.on_lost = [*term._kept.on_lost, work.cancel, *ends]
            try:
                return await work
            except asyncio.CancelledError:
                if not work.done():
                    work.cancel()
                term.check()  # LeaseLost, if that is why
                raise
            finally:
                try:
                    await self.resign()
                finally:
                    if stopped is not None and term.state is LeaseState.RELEASED:
                        stopped(term)
        finally:
            over.set()

    async def __aenter__(self) -> AsyncLease:
        return await self.campaign()

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            await self._resign()
        except LeaseLost as lost:
            if error is None:
                raise
            error.add_note(f"Besides, {lost}")
