"""Carries out at the engine what a client asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fencelock.core.errors import UnsafeEngine, Unsupported
from fencelock.core.names import check_name
from fencelock.core.ticket import Ticket
from fencelock.engines.contract import NO_SHARING, UNSAFE, Engine
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Enter,
    Evict,
    Inspect,
    Leave,
    Park,
    Recall,
    Remember,
    Renew,
    Unpark,
    WireInspection,
    WireStanding,
    WireTicket,
)
from fencelock.io.contract import IO
from fencelock.service.principals import Principal


class Acts:
    """The acts of engines/http/wire.py, for principals that may do them."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self.engine = engine
        self.io = io
        self.entering: dict[str, asyncio.Future[None] | None] = {}
        """The end of an `Enter` under way, by the ticket's id. What comes next for the ticket waits for it:
        its client waits for the answer no more, and engines expect one request of a ticket at a time.
        None as long as nothing waits."""
        self.parked: dict[str, Callable[[], Awaitable[None]]] = {}
        """How to end the wait for a ticket's wake-up, by its id. The next request for the ticket may come on
        another line than the one that waits."""

    async def perform(self, act: AnyAct, principal: Principal) -> Answer:
        """Carry out an act. Raises what `problem_of` translates."""
        engine = self.engine
        match act:
            case Enter():
                return await self._enter(act, principal)
            case Renew(tickets, timeout):
                asked = [_checked(each, principal) for each in tickets]
                standings = await engine.renew(asked, timeout=timeout)
                return Answer(standings=[each and WireStanding.pack(each) for each in standings])
            case Leave(ticket, timeout, departure):
                asking = _checked(ticket, principal)
                return Answer(done=await engine.leave(asking, timeout=timeout, departure=departure))
            case Park(ticket, timeout):
                standing = await self.park(_checked(ticket, principal), timeout)
                return Answer(standings=[standing])
            case Unpark():
                return Answer(done=True)  # a line knows what is parked
            case Evict(name, timeout):
                principal.require("break", check_name(name))
                return Answer(done=await engine.evict(name, timeout=timeout))
            case Remember(ticket, text, keep, timeout):
                self._require_notes()
                asking = _checked(ticket, principal)
                done = await engine.remember(asking, text, keep=keep, timeout=timeout)
                return Answer(done=done)
            case Recall(name, timeout):
                self._require_notes()
                principal.require("lock", check_name(name))
                return Answer(text=await engine.recall(name, timeout=timeout))
            case Inspect(name, timeout, limit):
                principal.require("read", check_name(name))
                seen = await engine.inspect(name, limit=limit, timeout=timeout)
                return Answer(seen=WireInspection.pack(seen))
        names = await engine.names(act.pattern, timeout=act.timeout)
        return Answer(names=[name for name in names if principal.may("read", name)])

    async def _enter(self, act: Enter, principal: Principal) -> Answer:
        if act.require == "correctness" and self.engine.traits.guarantee != "correctness":
            raise UnsafeEngine(UNSAFE)
        tickets = [_checked(each, principal) for each in act.tickets]
        if not self.engine.traits.supports_sharing and any(each.share.group for each in tickets):
            raise Unsupported(NO_SHARING)
        if len(tickets) == 1:
            standing = await self.engine.enter(tickets[0], if_free=act.if_free, timeout=act.timeout)
            return Answer(standings=[WireStanding.pack(standing)])
        if not act.if_free:
            raise ValueError("several tickets can only enter with if_free")
        standings = await self.engine.enter_free(tickets, timeout=act.timeout)
        return Answer(standings=[WireStanding.pack(each) for each in standings])

    def _require_notes(self) -> None:
        if not self.engine.traits.supports_notes:
            raise Unsupported("the engine behind this service can't store notes")

    async def park(self, ticket: Ticket, seconds: float) -> WireStanding | None:
        """Wait for the wake-up of a ticket that has entered here; None: look again."""
        standing = await self.engine.park(ticket, self.io.now() + seconds)
        return None if standing is None else WireStanding.pack(standing)


def _checked(ticket: WireTicket, principal: Principal) -> Ticket:
    """The ticket, if this principal may lock its name."""
    if check_name(ticket.name) != ticket.name:
        raise ValueError("a name must be in the form NFC")
    principal.require("lock", ticket.name)
    return ticket.unpack()
