"""A server, and the faulty network between it and the clients. The server is the memory engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fencelock.core.errors import EngineError, Outcome
from fencelock.core.ticket import Departure, Inspection, Place, Standing, Ticket
from fencelock.engines.contract import Engine
from fencelock.engines.memory import MemoryEngine, MemoryStore
from fencelock.io.blocking import run
from fencelock.io.contract import Event
from fencelock.io.simulated import SimulatedIO, World

T = TypeVar("T")

Action = Callable[[], T]
"""What a request does when it reaches the server. It may run twice, late or never."""


@dataclass(frozen=True)
class Faults:
    """How bad the network is: probabilities for each message, and durations in seconds."""

    delay: float = 0.001
    """The mean delay of a message."""
    lost_requests: float = 0.0
    lost_replies: float = 0.0
    """The server has acted, but the sender never hears of it."""
    duplicates: float = 0.0
    """The server acts a second time, later: perhaps after requests that were sent later."""
    late: float = 0.0
    lateness: float = 0.0
    """The longest extra delay of a late message. Its sender may have given up by then."""
    lost_pushes: float = 0.0


CALM = Faults()


class Server:
    """A memory engine that can stop, start again, and lose its memory."""

    def __init__(self, world: World) -> None:
        self.io = world.process("server", rate=1.0)
        self.store = MemoryStore()
        self.engine = MemoryEngine(self.store, self.io)
        self.up = True
        self.again = False
        """Whether the current request is a second copy."""
        self.observe: Callable[[str, str], None] = lambda name, cause: None
        """Called after each change of a queue, with its name and the kind of change."""

    def enter(self, ticket: Ticket, if_free: bool, push: Event) -> Standing:
        standing = run(self.engine.enter(ticket, if_free=if_free, timeout=0.0))
        if standing.place is Place.WAITING:
            self.store.parked[ticket.id] = push  # replaces an event that only the server could see
        self.observe(ticket.name, "entered")
        return standing

    def renew(self, tickets: Sequence[Ticket]) -> list[Standing | None]:
        standings = run(self.engine.renew(tickets, timeout=0.0))
        for name in dict.fromkeys(ticket.name for ticket in tickets):
            self.observe(name, "renewed")
        return standings

    def leave(self, ticket: Ticket, departure: Departure) -> bool:
        left = run(self.engine.leave(ticket, timeout=0.0, departure=departure))
        self.store.parked.pop(ticket.id, None)
        self.observe(ticket.name, departure.name.lower() if left else "looked")
        return left

    def evict(self, name: str) -> bool:
        evicted = run(self.engine.evict(name, timeout=0.0))
        self.observe(name, "evicted")
        return evicted

    def inspect(self, name: str, limit: int) -> Inspection:
        seen = run(self.engine.inspect(name, limit=limit, timeout=0.0))
        self.observe(name, "looked")
        return seen

    def standing(self, ticket: Ticket) -> Standing:
        """The standing that a wake-up carries, read right after the queue has changed."""
        return self.store.on(ticket.name, lambda queue: queue.standing(ticket.id, self.io.now()))

    def stop(self) -> None:
        """Stop: no request is answered, and no parked ticket will be woken."""
        self.up = False
        self.store.parked.clear()

    def start(self, names: Sequence[str], *, wiped: bool) -> None:
        """Start again, with or without the old memory."""
        self.up = True
        if wiped:
            self.store.wipe()
        for name in names:
            self.observe(name, "wiped" if wiped else "looked")


class Network:
    """Carries messages between the processes and the server, with the faults it is given."""

    def __init__(self, world: World, server: Server) -> None:
        self.world = world
        self.server = server
        self.faults = CALM
        self.counts: Counter[str] = Counter()
        self.cut_off: set[str] = set()
        """Processes that can't reach the server at the moment."""

    def send(self, engine: FaultyEngine, what: str, action: Action[Any], reply: _Reply) -> None:
        """Carry a request to the server and its answer back, or not."""
        chance, faults = self.world.random.random, self.faults
        if not self._passes(engine) or chance() < faults.lost_requests:
            self._lose(engine, f"request {what}", reply, outcome="not applied")
            return
        self.world.after(self._delay(), lambda: self._deliver(engine, what, action, reply))
        if chance() < faults.duplicates:
            self.counts["requests duplicated"] += 1
            again = self._delay() + chance() * faults.lateness
            self.world.after(again, lambda: self._deliver(engine, f"{what} again", action, None))

    def push(self, engine: FaultyEngine, ticket: Ticket) -> None:
        """Carry a wake-up to a client."""
        if not self._passes(engine) or self.world.random.random() < self.faults.lost_pushes:
            self.counts["pushes lost"] += 1
            self.world.log(engine.io.name, f"push to {ticket.owner.label} lost")
            return
        # Some engines send the standing with the wake-up, others only say: look again.
        news = self.server.standing(ticket) if self.world.random.random() < 0.5 else None
        self.world.after(self._delay(), lambda: engine.pushed(ticket, news))

    def _passes(self, engine: FaultyEngine) -> bool:
        return self.server.up and engine.io.name not in self.cut_off

    def _delay(self) -> float:
        random, faults = self.world.random, self.faults
        delay = faults.delay * (0.2 + random.expovariate(1.0))
        if faults.late and random.random() < faults.late:
            self.counts["messages late"] += 1
            delay += random.random() * faults.lateness
        return delay

    def _deliver(
        self, engine: FaultyEngine, what: str, action: Action[Any], reply: _Reply | None
    ) -> None:
        if not self._passes(engine):
            self._lose(engine, f"request {what}", reply, outcome="unknown")
            return
        self.server.again = reply is None
        answer = action()
        self.server.again = False
        self.world.log("server", f"{engine.io.name} {what} -> {_shown(answer)}")
        if reply is None:
            return
        if self.world.random.random() < self.faults.lost_replies:
            self._lose(engine, f"reply to {what}", reply, outcome="unknown")
            return

        def arrive() -> None:
            if self._passes(engine):
                reply.arrive(answer)
            else:
                self._lose(engine, f"reply to {what}", reply, outcome="unknown")

        self.world.after(self._delay(), arrive)

    def _lose(
        self, engine: FaultyEngine, what: str, reply: _Reply | None, *, outcome: Outcome
    ) -> None:
        """Lose a message: silently, or with a broken connection that its sender notices."""
        self.counts["requests lost" if what.startswith("request") else "replies lost"] += 1
        self.world.log(engine.io.name, f"{what} lost")
        if reply is not None and self.world.random.random() < 0.4:
            self.world.after(self._delay(), lambda: reply.fail(outcome))


class _Reply:
    """The reply to one request, and its caller's wait for it."""

    def __init__(self, io: SimulatedIO) -> None:
        self._event = io.event()
        self._value: Any = None
        self._error: Outcome | None = None

    def arrive(self, value: Any) -> None:
        self._value = value
        self._event.set()

    def fail(self, outcome: Outcome) -> None:
        self._error = outcome
        self._event.set()

    async def get(self, what: str, timeout: float) -> Any:
        if not await self._event.wait(timeout):
            raise EngineError(f"{what}: no answer within {timeout:.3f} s", outcome="unknown")
        if self._error:
            how = "refused" if self._error == "not applied" else "broke"
            raise EngineError(f"{what}: connection {how}", outcome=self._error)
        return self._value


class FaultyEngine(Engine):
    """One process's connection to the server, over the faulty network. Otherwise the memory engine."""

    traits = MemoryEngine.traits

    def __init__(self, network: Network, io: SimulatedIO) -> None:
        self.io = io
        self.parked: dict[str, _Parked] = {}
        self._network = network
        self._server = network.server

    async def enter(self, ticket: Ticket, *, if_free: bool, timeout: float) -> Standing:
        parked = self.parked[ticket.id] = _Parked(self, ticket)

        def action() -> Standing:
            return self._server.enter(ticket, if_free, cast(Event, parked))

        what = f"enter {ticket.owner.label}" + (" if free" if if_free else "")
        standing = await self._ask(what, action, timeout)
        if standing.place is not Place.WAITING:
            self.unpark(ticket)
        return standing

    async def renew(self, tickets: Sequence[Ticket], *, timeout: float) -> list[Standing | None]:
        what = " ".join(["renew", *(ticket.owner.label for ticket in tickets)])
        standings = await self._ask(what, lambda: self._server.renew(tickets), timeout)
        # An engine with several nodes may have had answers from some of them only.
        lost, chance = self._network.faults.lost_replies, self.io.random.random
        return [None if lost and chance() < lost else standing for standing in standings]

    async def leave(
        self, ticket: Ticket, *, timeout: float, departure: Departure = Departure.RELEASED
    ) -> bool:
        what = f"leave {ticket.owner.label} {departure.name.lower()}"
        return await self._ask(what, lambda: self._server.leave(ticket, departure), timeout)

    async def park(self, ticket: Ticket, until: float) -> Standing | None:
        parked = self.parked[ticket.id]
        if not await parked.event.wait(max(0.0, until - self.io.now())):
            return None
        parked.event.clear()
        if parked.broken:
            parked.broken = False
            raise EngineError("connection broke", outcome="not applied", name=ticket.name)
        news, parked.news = parked.news, None
        return news

    def interrupt(self, ticket: Ticket) -> None:
        self.pushed(ticket, None)

    def pushed(self, ticket: Ticket, news: Standing | None) -> None:
        """A wake-up has arrived."""
        parked = self.parked.get(ticket.id)
        if parked is not None:
            parked.news = news
            parked.event.set()

    def disconnect(self) -> None:
        """Tell every parked ticket that the connection is gone."""
        for parked in self.parked.values():
            parked.broken = True
            parked.event.set()

    def unpark(self, ticket: Ticket) -> None:
        self.parked.pop(ticket.id, None)

    async def inspect(self, name: str, *, limit: int, timeout: float) -> Inspection:
        return await self._ask("inspect", lambda: self._server.inspect(name, limit), timeout)

    async def names(self, pattern: str, *, timeout: float) -> list[str]:
        engine = self._server.engine
        return await self._ask("names", lambda: run(engine.names(pattern, timeout=0.0)), timeout)

    async def evict(self, name: str, *, timeout: float) -> bool:
        return await self._ask(f"evict {name}", lambda: self._server.evict(name), timeout)

    async def close(self) -> None:
        pass

    async def _ask(self, what: str, action: Action[T], timeout: float) -> T:
        await self.io.sleep(0)  # a process may be stopped, or a task cancelled, before it sends
        reply = _Reply(self.io)
        self._network.send(self, what, action, reply)
        return cast(T, await reply.get(what, timeout))


class _Parked:
    """A waiting ticket: the event on which its client sleeps, and the server's way to wake it."""

    def __init__(self, engine: FaultyEngine, ticket: Ticket) -> None:
        self.engine = engine
        self.ticket = ticket
        self.event = engine.io.event()
        self.news: Standing | None = None
        self.broken = False

    def set(self) -> None:
        """Called by the store when others' actions have admitted the ticket."""
        self.engine._network.push(self.engine, self.ticket)


def _shown(answer: Any) -> str:
    if isinstance(answer, Standing):
        return f"{answer.place.name} {answer.fence}"
    if isinstance(answer, list):
        return ", ".join(_shown(item) for item in answer)
    return str(answer) if isinstance(answer, bool) else type(answer).__name__
