"""Several engines as one: each name belongs to one of them, by a pattern or by its hash.

For programs that outgrow one cluster. The engines share nothing, so there is no promise across them, with
one exception: `lock_all` takes names in one order, also if they belong to different engines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b

from fencelock.core.errors import EngineError
from fencelock.core.names import matches
from fencelock.core.ticket import Departure, Inspection, Standing, Ticket
from fencelock.core.url import Url
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.registry import opener_of
from fencelock.io.contract import IO
from fencelock.observe.audience import Audience

Routes = Mapping[str, str | Sequence[str]]
"""A URL for each pattern. The first pattern that matches a name counts. A hash chooses among several URLs."""


def routed_opener_of(routes: Routes, namespace: str | None = None) -> Callable[[IO], RoutedEngine]:
    """The function that opens the engine for a table of routes. A URL that occurs twice is one engine.

    The patterns are for names in the namespace, if there is one. The last one is for all names.
    """
    if not hasattr(routes, "items"):
        raise TypeError('give a URL, or a dict of patterns and URLs: {"order:*": url, "*": url}')
    if not routes or list(routes)[-1] != "*":
        raise ValueError('the last route must be "*", so that every name has an engine')
    table = [
        (pattern, [given] if isinstance(given, str) else list(given))
        for pattern, given in routes.items()
    ]
    for pattern, urls in table:
        if not urls:
            raise ValueError(f"the route {pattern!r} has no URL")
        if any(Url.parse(url).namespace is not None for url in urls):
            raise ValueError(
                "the URL of a route can't have a namespace of its own: give it to the client, namespace=…"
            )
    if namespace:
        table = [(each if each == "*" else f"{namespace}/{each}", urls) for each, urls in table]
    openers = {url: opener_of(url) for _, urls in table for url in urls}

    def open_routed(io: IO) -> RoutedEngine:
        engines = {url: opener(io) for url, opener in openers.items()}
        parts = [(pattern, [engines[url] for url in urls]) for pattern, urls in table]
        return RoutedEngine(parts, list(engines.values()), io)

    return open_routed


class RoutedEngine(Engine):
    """Sends each request to the engine that its name belongs to."""

    def __init__(
        self, table: list[tuple[str, list[Engine]]], engines: list[Engine], io: IO
    ) -> None:
        self._table = table
        self._engines = engines
        self._io = io
        _common_traits(engines)  # noticed now if they don't go together
        self.part_of = lru_cache(4096)(self._part_of)

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # a part may learn its traits later
        """What all parts can promise."""
        return _common_traits(self._engines)

    def _part_of(self, name: str) -> Engine:
        """The engine of a name."""
        engines = next(engines for pattern, engines in self._table if matches(name, pattern))
        if len(engines) == 1:
            return engines[0]
        # The engine with the highest hash: when an engine is added or removed, only its own names move.
        return max(engines, key=lambda engine: _weight(name, engines.index(engine)))

    def label_of(self, name: str) -> str:
        return self.part_of(name).label

    def parts(self) -> Sequence[Engine]:
        return self._engines

    def patterns_of(self, part: Engine) -> list[str]:
        """The patterns of the names that a part may keep."""
        return [pattern for pattern, engines in self._table if part in engines]

    def observed(self, audience: Audience, now: Callable[[], float]) -> RoutedEngine:
        observed = {engine: engine.observed(audience, now) for engine in self._engines}
        table = [(pattern, [observed[each] for each in parts]) for pattern, parts in self._table]
        return RoutedEngine(table, list(observed.values()), self._io)

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

        # At the same time: an engine that hangs must not use up the time of the others.
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

    async def leave_all(self, tickets: Sequence[Ticket], *, timeout: float) -> list[bool]:
        parts = {self.part_of(ticket.name) for ticket in tickets}
        if len(parts) == 1:
            return await parts.pop().leave_all(tickets, timeout=timeout)
        return await super().leave_all(tickets, timeout=timeout)

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

    async def ping(self, *, timeout: float) -> None:
        for engine in self._engines:
            await engine.ping(timeout=timeout)

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self.part_of(name).evict(name, timeout=timeout)

    async def close(self) -> None:
        for engine in self._engines:
            await engine.close()

    def abandon(self) -> None:
        for engine in self._engines:
            engine.abandon()


def _weight(name: str, index: int) -> bytes:
    return blake2b(f"{index} {name}".encode(), digest_size=8).digest()


def _common_traits(engines: list[Engine]) -> Traits:
    """What all of the engines can promise."""
    traits = [engine.traits for engine in engines]
    if len({each.leases_expire for each in traits}) > 1:
        raise ValueError("engines with a ttl and engines without one can't be used as one")
    weakest = min(traits, key=lambda each: (each.guarantee == "correctness", each.provisional))
    return weakest._replace(
        fifo=all(each.fifo for each in traits),
        push=all(each.push for each in traits),
        supports_sharing=all(each.supports_sharing for each in traits),
        supports_rates=all(each.supports_rates for each in traits),
        supports_notes=all(each.supports_notes for each in traits),
        accepts_floor=all(each.accepts_floor for each in traits),
        cross_process=all(each.cross_process for each in traits),
        portable=all(each.portable for each in traits),
        fenced_while_waiting=all(each.fenced_while_waiting for each in traits),
        max_overstay=max(each.max_overstay for each in traits),
        fencing=_all_of(each.fencing for each in traits),
        clock=_all_of(each.clock for each in traits),
        condition=(
            _all_of(each.condition for each in traits) if weakest.guarantee == "correctness" else ""
        ),
    )


def _all_of(texts: Iterable[str]) -> str:
    """The texts in a row, each once."""
    return "; ".join(dict.fromkeys(text for text in texts if text))
