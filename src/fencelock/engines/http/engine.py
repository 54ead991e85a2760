"""The engine in front of a lock service: `fencelock serve`, which has the real engine behind it.

The client makes a ticket's id, so a request can be repeated at any replica. If a replica fails, the tickets
that wait there enter again at another one, and keep their places. The files of this folder:

- `opening`: from a URL to the engine. `engine`: the operations of the contract.
- `wire`: what client and service say to each other. `failures`: what the service's problems mean.
- `websocket`: the protocol below that, without I/O.
- `link`, `blocking`, `multiplexed`: the connections.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

from fencelock.core.errors import EngineError
from fencelock.core.ticket import WAITING, Departure, Inspection, Place, Standing, Ticket
from fencelock.engines.contract import Engine, Traits
from fencelock.engines.diagnosis import Server
from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.failures import ELSEWHERE, OTHER_ENGINE, failure_of
from fencelock.engines.http.link import Link, Node
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Enter,
    Evict,
    Hello,
    Inspect,
    Leave,
    Names,
    Ping,
    Recall,
    Remember,
    Renew,
    WireTicket,
)
from fencelock.io.contract import IO

_BATCH = 500
"""The number of tickets in one request at the most."""

_BATCH_SIZE = 2**20
"""The number of characters of their owners' data at the most."""

_MAX_INSPECTED = 10_000
"""The number of waiters that a service lists at the most."""

_LONGEST = 3600.0
"""The longest timeout that a service accepts, in seconds."""

_FOR_THE_ENGINE = 0.9
"""The part of a timeout that the service may wait for its engine. In the rest, its answer travels."""


class HttpEngine(Engine):
    """Queues behind a lock service.

    Nothing is known of the real engine until a service has said hello. Until then the traits are assumptions:
    that it can do everything, and that it promises an efficiency lock only.
    """

    traits = Traits(
        guarantee="efficiency",
        fencing="known after the first contact with the service",
        clock="known after the first contact with the service",
        supports_sharing=True,
        supports_rates=True,
        supports_notes=True,
        portable=True,
        provisional=True,
    )

    def __init__(self, nodes: Sequence[Node], where: str, io: IO) -> None:
        self._nodes = list(nodes)
        io.random.shuffle(self._nodes)  # so that the clients spread over the replicas
        self._node = self._nodes[0]
        """The replica to ask. If it fails, the next one takes its place."""
        self._where = where
        self._io = io
        self._parked: dict[str, Link] = {}
        """The links of the tickets that wait, by id."""
        self._parked_lock = threading.Lock()
        """Held while another thread ends a `park`: until then its link must not go to anybody else."""
        self._kind: str | None = None
        for node in nodes:
            node.met = self._met

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        id, waiting = ticket.id, False
        act = Enter([WireTicket.pack(ticket)], _granted(timeout), if_free, self._required())
        answer, link = await self._exchange(act, timeout, ticket.name, id)
        try:
            standing = _standings(answer, 1)[0]
            assert standing is not None
            waiting = standing.place is WAITING
            return standing
        finally:
            if waiting:
                self._parked[id] = link
            else:
                link.node.give(link, id)

    async def enter_free(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing]:
        standings: list[Standing] = []
        until = self._io.now() + timeout
        for batch in _batches(tickets):
            left = max(until - self._io.now(), 0.001)
            packed = [WireTicket.pack(ticket) for ticket in batch]
            act = Enter(packed, _granted(left), True, self._required())
            try:
                answer = await self._ask(act, left, batch[0].name if len(tickets) == 1 else None)
            except EngineError as error:
                if standings:  # those of an earlier batch have joined
                    error.outcome = "unknown"
                raise
            standings += [
                each or Standing(Place.REFUSED) for each in _standings(answer, len(batch))
            ]
            if standings[-1].place is Place.REFUSED:
                break
        return standings + [Standing(Place.REFUSED)] * (len(tickets) - len(standings))

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        standings: list[Standing | None] = []
        failure: EngineError | None = None
        until = self._io.now() + timeout
        for batch in _batches(tickets):
            left = max(until - self._io.now(), 0.001)
            act = Renew([WireTicket.pack(ticket) for ticket in batch], _granted(left))
            try:
                answer = await self._ask(act, left, batch[0].name if len(tickets) == 1 else None)
                standings += _standings(answer, len(batch))
            except EngineError as error:
                failure = failure or error
                standings += [None] * len(batch)
        if failure is not None and not any(standings):
            raise failure
        return standings

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        act = Leave(WireTicket.pack(ticket), _granted(timeout), departure)
        return bool((await self._ask(act, timeout, ticket.name)).done)

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        link = self._parked.get(ticket.id)
        if link is None:  # it broke meanwhile
            return None
        try:
            wake = await link.listen(ticket.id, until - self._io.now())
            if wake is None:
                return None
            if wake.problem is not None:
                raise failure_of(wake.problem, ticket.name)
        except RequestFailed as error:
            self.unpark(ticket)
            raise self._error(error, ticket.name) from error
        return None if wake.standing is None else wake.standing.unpack()

    def unpark(self, ticket: Ticket) -> None:
        link = self._take_parked(ticket.id) if ticket.id in self._parked else None
        if link is not None:
            link.node.give(link, ticket.id)

    def interrupt(self, ticket: Ticket) -> None:
        with self._parked_lock:
            link = self._parked.get(ticket.id)
            if link is not None:
                link.interrupt(ticket.id)

    async def remember(self, ticket: Ticket, text: str, *, keep: float, timeout: float) -> bool:
        act = Remember(WireTicket.pack(ticket), text, keep, _granted(timeout))
        return bool((await self._ask(act, timeout, ticket.name)).done)

    async def recall(self, name: str, *, timeout: float) -> str | None:
        return (await self._ask(Recall(name, _granted(timeout)), timeout, name)).text

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        act = Inspect(name, _granted(timeout), min(limit, _MAX_INSPECTED))
        answer = await self._ask(act, timeout, name)
        assert answer.seen is not None
        return answer.seen.unpack()

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        return (await self._ask(Names(_granted(timeout), pattern), timeout, None)).names or []

    async def evict(self, name: str, *, timeout: float) -> bool:
        return bool((await self._ask(Evict(name, _granted(timeout)), timeout, name)).done)

    async def ping(self, *, timeout: float) -> None:
        await self._ask(Ping(_granted(timeout)), timeout, None)

    async def diagnose(self, *, timeout: float, probe: bool = False) -> list[Server]:
        from fencelock.engines.http.diagnosis import describe  # few programs need it

        nodes = sorted(self._nodes, key=str)
        return await describe(nodes, self._io, timeout, probe=probe)

    async def close(self) -> None:
        with self._parked_lock:
            for id, link in list(self._parked.items()):
                link.dismiss(id)
        for node in self._nodes:
            await node.close()

    # --- one request

    async def _ask(self, act: AnyAct, timeout: float, name: str | None) -> Answer:
        """Ask for an act for no ticket that waits."""
        answer, link = await self._exchange(act, timeout, name)
        link.node.give(link)
        return answer

    async def _exchange(
        self, act: AnyAct, timeout: float, name: str | None, waiter: str = ""
    ) -> tuple[Answer, Link]:
        """Ask for an act, at another replica if one can't have carried it out. Returns also the link, which
        the caller has to give back."""
        link = self._resume(waiter) if waiter in self._parked else None
        link = link or self._node.ready()
        node, left = self._node, timeout
        until, tries = self._io.now() + timeout, 0
        while True:
            try:
                if link is None:
                    node = self._node
                    # A replica that does not answer must leave some time for the others.
                    link = await node.connect(left / (len(self._nodes) - tries))
                    left = max(until - self._io.now(), 0.001)
                node = link.node
                try:
                    # `type() is` costs less than `isinstance`, but mypy does not follow it here: hence Any.
                    answer: Any = link.exchange(act, left, waiter)
                    if type(answer) is not Answer:
                        answer = await answer
                    if answer.problem is not None:
                        raise failure_of(answer.problem, name)
                except BaseException:
                    node.give(link, waiter)
                    raise
                return answer, link
            except RequestFailed as error:
                if error.code in ELSEWHERE:
                    self._turn_from(node)
                if (
                    error.code != "closed"
                ):  # it was closed before: that says nothing about a new one
                    tries += 1
                left = until - self._io.now()
                again = error.outcome == "not applied" and error.code in ELSEWHERE
                if error.code == OTHER_ENGINE:  # a fault that must be seen
                    again = False
                if not again or left <= 0 or tries >= len(self._nodes):
                    raise self._error(error, name) from error
                link = self._node.ready()

    def _turn_from(self, node: Node) -> None:
        """Ask another replica from now on, and let no ticket wait at this one."""
        if len(self._nodes) == 1:
            return
        if node is self._node:
            self._node = self._nodes[(self._nodes.index(node) + 1) % len(self._nodes)]
        with self._parked_lock:
            for id, link in list(self._parked.items()):
                if link.node is node:
                    link.dismiss(id)

    def _resume(self, id: str) -> Link | None:
        """The link on which a ticket already waits, if it is still good."""
        link = self._take_parked(id)
        if link is None or not link.broken:
            return link
        link.node.give(link, id)
        return None

    def _take_parked(self, id: str) -> Link | None:
        with self._parked_lock:
            return self._parked.pop(id, None)

    def _met(self, hello: Hello) -> None:
        """A service has said hello: learn what its engine promises."""
        if self._kind is None:
            self._kind, self.traits = hello.engine, hello.traits.unpack()
        elif (hello.engine, hello.traits.guarantee) != (self._kind, self.traits.guarantee):
            raise RequestFailed(
                f"a replica has another engine ({hello.engine}) than the one before ({self._kind}): "
                "replicas must have the same engine behind them",
                "not applied",
                OTHER_ENGINE,
            )

    def _required(self) -> str:
        return "correctness" if self.required == "correctness" else ""

    def _error(self, error: RequestFailed, name: str | None) -> EngineError:
        """The one place where a failed request becomes an `EngineError`."""
        return EngineError(f"{self._where}: {error}", outcome=error.outcome, name=name)


def _granted(timeout: float) -> float:
    """How many seconds the service may wait for its engine."""
    return min(max(timeout * _FOR_THE_ENGINE, 0.001), _LONGEST)


def _standings(answer: Answer, count: int) -> list[Standing | None]:
    standings = answer.standings or []
    if len(standings) != count:
        raise EngineError("the service has not answered for each ticket", outcome="unknown")
    return [None if each is None else each.unpack() for each in standings]


def _batches(tickets: Sequence[Ticket]) -> Iterator[Sequence[Ticket]]:
    """The tickets in groups that fit into one message each."""
    if len(tickets) == 1:
        yield tickets
        return
    batch: list[Ticket] = []
    size = 0
    for ticket in tickets:
        size += len(ticket.owner.data)
        if batch and (len(batch) == _BATCH or size > _BATCH_SIZE):
            yield batch
            batch, size = [], len(ticket.owner.data)
        batch.append(ticket)
    if batch:
        yield batch
