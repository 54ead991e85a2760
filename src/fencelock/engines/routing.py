"""Several engines as one: each name belongs to one of them, by a pattern or by its hash.

For those who outgrow one cluster. Nothing is shared between the parts, so nothing is promised across
them but what an order of names gives: `lock_all` takes names in one order, wherever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.io.contract import IO

Routes = Mapping[str, str | Sequence[str]]
"""Patterns, the first that matches counts, and the URL for each; or several URLs, and the hash chooses."""


def open_routed(routes: Routes, io: IO, open_one: Callable[[str, IO], Engine]) -> RoutedEngine:
    """The engine for a table of routes; a URL that occurs twice is one engine."""
    if not hasattr(routes, "items"):
        raise TypeError('give a URL, or a dict of patterns and URLs: {"order:*": url, "*": url}')
    if not routes or list(routes)[-1] != "*":
        raise ValueError('the last route must be "*", so that every name has an engine')
    opened: dict[str, Engine] = {}
    table = []
    for pattern, given in routes.items():
        urls = [given] if isinstance(given, str) else list(given)
        if not urls:
            raise ValueError(f"the route {pattern!r} has no URL")
        for url in urls:
            if url not in opened:
                opened[url] = open_one(url, io)
        table.append((pattern, [opened[url] for url in urls]))
    return RoutedEngine(table, list(opened.values()), io)


class RoutedEngine(Engine):
    """Sends each request to the engine that its name belongs to."""

    def __init__(
        self, table: list[tuple[str, list[Engine]]], engines: list[Engine], io: IO
    ) -> None:
        self._table = table
        self._engines = engines
        self._io = io
        self.traits = _least(engines)
        self.part_of = lru_cache(4096)(self._part_of)

    def _part_of(self, name: str) -> Engine:
        """The engine of a name."""
        engines = next(engines for pattern, engines in self._table if matches(name, pattern))
        if len(engines) == 1:
            return engines[0]
        # The highest of their hashes: when one is added or taken away, only its own names move.
        return max(engines, key=lambda one: _weight(name, engines.index(one)))

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        return await self.part_of(ticket.name).enter(ticket, if_free=if_free, timeout=timeout)

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        parts = {self.part_of(ticket.name) for ticket in tickets}
        if len(parts) == 1:
            return await parts.pop().enter_free(tickets, timeout=timeout)
        return await super().enter_free(tickets, timeout=timeout)

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        groups: dict[Engine, list[int]] = {}
        for index, ticket in enumerate(tickets):
            groups.setdefault(self.part_of(ticket.name), []).append(index)
        if len(groups) == 1:
            return await next(iter(groups)).renew(tickets, timeout=timeout)
        standings: list[Standing | None] = [None] * len(tickets)
        failures: list[EngineError] = []

        async def renew_at(engine: Engine, indexes: list[int]) -> None:
            try:
                answers = await engine.renew([tickets[i] for i in indexes], timeout=timeout)
            except EngineError as error:
                failures.append(error)
            else:
                for index, answer in zip(indexes, answers, strict=True):
                    standings[index] = answer

        # Side by side: one that hangs must not use up the time of the others.
        (first, *rest) = groups.items()
        others = [self._io.spawn(renew_at(*group), "fencelock-renew") for group in rest]
        await renew_at(*first)
        for other in others:
            await other.join()
        if len(failures) == len(groups):
            raise failures[0]
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        engine = self.part_of(ticket.name)
        return await engine.leave(ticket, timeout=timeout, departure=departure)

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        return await self.part_of(ticket.name).park(ticket, until)

    def unpark(self, ticket: Ticket) -> None:
        self.part_of(ticket.name).unpark(ticket)

    def interrupt(self, ticket: Ticket) -> None:
        self.part_of(ticket.name).interrupt(ticket)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        return await self.part_of(ticket.name).remember(ticket, text, keep=keep, timeout=timeout)

    async def recall(self, name: str, *, timeout: float) -> str | None:
        return await self.part_of(name).recall(name, timeout=timeout)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await self.part_of(name).inspect(name, limit=limit, timeout=timeout)

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        found: list[str] = []
        for engine in self._engines:
            names = await engine.names(pattern, timeout=timeout)
            found += [name for name in names if self.part_of(name) is engine]
        return sorted(found)

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self.part_of(name).evict(name, timeout=timeout)

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()


def _weight(name: str, place: int) -> bytes:
    return blake2b(f"{place} {name}".encode(), digest_size=8).digest()


def _least(engines: list[Engine]) -> Traits:
    """What all of them can promise."""
    traits = [engine.traits for engine in engines]
    if len({one.heartbeat is None for one in traits}) > 1:
        raise ValueError("engines with a ttl and engines without one can't be used as one")
    weakest = min(traits, key=lambda one: one.guarantee == "correctness")
    return weakest._replace(
        fifo=all(one.fifo for one in traits),
        push=all(one.push for one in traits),
        supports_sharing=all(one.supports_sharing for one in traits),
        supports_notes=all(one.supports_notes for one in traits),
        accepts_floor=all(one.accepts_floor for one in traits),
        cross_process=all(one.cross_process for one in traits),
        fenced_while_waiting=all(one.fenced_while_waiting for one in traits),
        max_overstay=max(one.max_overstay for one in traits),
        fencing="; ".join(dict.fromkeys(one.fencing for one in traits)),
        clock="; ".join(dict.fromkeys(one.clock for one in traits)),
        condition=_conditions(traits) if weakest.guarantee == "correctness" else "",
    )


def _conditions(traits: list[Traits]) -> str:
    """Those of all of them; each once."""
    return "; ".join(dict.fromkeys(one.condition for one in traits if one.condition))
