"""Takes a lock and hands it over, as two contenders would."""

from __future__ import annotations

import os
from contextlib import suppress

from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.ticket import ADMITTED, Owner, Standing, Ticket
from fencelock.doctor.checks import Probe
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO

_RECHECK = 0.5
"""Seconds after which a waiter asks again, at engines that don't wake it."""


async def hand_over(engine: Engine, io: IO, *, ttl: float, timeout: float) -> Probe:
    """Take a lock that nobody else uses, let a second ticket wait for it, and release it."""
    try:
        return await _hand_over(engine, io, ttl, timeout)
    except FencelockError as error:
        return Probe(failure=str(error))


async def _hand_over(engine: Engine, io: IO, ttl: float, timeout: float) -> Probe:
    name = f"fencelock doctor {os.urandom(6).hex()}"
    owner = Owner(os.uname().nodename.replace(" ", "-") or "localhost", os.getpid(), "doctor")
    first, second = (Ticket(name, os.urandom(16).hex(), ttl, owner) for _ in range(2))
    try:
        held = await _enter(engine, first, io, timeout)
        await engine.enter(second, if_free=False, timeout=timeout)
        began = io.now()
        await engine.leave(first, timeout=timeout)
        admitted = await _enter(engine, second, io, timeout)
        return Probe(io.now() - began, (held.fence, admitted.fence))
    finally:
        for ticket in (second, first):
            engine.unpark(ticket)
            with suppress(FencelockError):  # the ttl ends what can't be released now
                await engine.leave(ticket, timeout=timeout)


async def _enter(engine: Engine, ticket: Ticket, io: IO, timeout: float) -> Standing:
    """Wait until a ticket is admitted."""
    until = io.now() + timeout
    while True:
        standing: Standing | None = await engine.enter(ticket, if_free=False, timeout=timeout)
        if standing is not None and standing.place is not ADMITTED:
            standing = await engine.park(ticket, min(until, io.now() + _RECHECK))
        if standing is not None and standing.place is ADMITTED:
            return standing
        if io.now() >= until:
            raise EngineError(
                f"a lock was not handed over within {timeout:g} s",
                outcome="unknown",
                name=ticket.name,
            )
