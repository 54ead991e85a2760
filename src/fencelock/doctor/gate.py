"""Examines a set-up before the first ticket joins a queue, and refuses all tickets if it gives too little."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from fencelock.core.ticket import Standing, Ticket
from fencelock.doctor import examine
from fencelock.doctor.verdict import Report, is_below
from fencelock.engines.contract import Engine
from fencelock.io.contract import IO, Event

log = logging.getLogger("fencelock.engine")


def examine_first(engine: Engine, io: IO) -> None:
    """From now on this engine takes no ticket before it was examined, and none if it gives too little.

    Too little is what is below `engine.required`. A check that could not be made refuses nothing, because
    programs must be able to run on managed servers; it is logged.
    """
    gate = _Gate(engine, io)
    enter, enter_free = engine.enter, engine.enter_free

    async def examined_enter(ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        await gate.open(ticket.ttl, timeout)
        return await enter(ticket, if_free=if_free, timeout=timeout)

    async def examined_enter_free(tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        await gate.open(tickets[0].ttl, timeout)
        return await enter_free(tickets, timeout=timeout)

    # On this instance alone: everybody who has it goes through the gate.
    engine.enter = examined_enter  # type: ignore[method-assign]
    engine.enter_free = examined_enter_free  # type: ignore[method-assign]


class _Gate:
    """One examination for all callers."""

    def __init__(self, engine: Engine, io: IO) -> None:
        self._engine = engine
        self._io = io
        self._report: Report | None = None
        self._examining: Event | None = None

    async def open(self, ttl: float, timeout: float) -> None:
        """Return if the set-up gives what is required; `UnsafeEngine` if it gives less."""
        report = self._report
        if report is None or is_below(report.verdict, self._engine.required):
            report = await self._examined(ttl, timeout)
            report.require(self._engine.required)

    async def _examined(self, ttl: float, timeout: float) -> Report:
        while (examining := self._examining) is not None:  # another caller does it
            await examining.wait(timeout)
            if self._examining is examining:  # it hangs: look for oneself
                break
            if self._report is not None:
                return self._report
        over = self._examining = self._io.event()
        try:
            report = await examine(self._engine, self._io, ttl=ttl, timeout=timeout)
        finally:
            self._examining = None
            over.set()
        self._report = report
        if unknown := report.unknown(self._engine.required):
            log.warning(
                "not known whether this set-up gives %s: %s",
                self._engine.required,
                "; ".join(f"{check.id}: {check.detail}" for check in unknown),
            )
        return report
