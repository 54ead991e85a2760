"""The client of the lock service in the simulated world: replicas die and come back while it works.

The client's engine is the real `HttpEngine`. Only the lines are simulated: what a line carries goes over the
faulty network of `network.py` to the one server, and a replica that dies takes its lines along.
`python -m fencelock.torture.replicas --seeds 0-999` runs many schedules, as `simulate.py` does.
"""

from __future__ import annotations

import sys

from fencelock.core.errors import EngineError
from fencelock.core.ticket import Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.engine import HttpEngine
from fencelock.engines.http.link import Link, Login, Node, waits
from fencelock.engines.http.wire import (
    Answer,
    AnyAct,
    Enter,
    Evict,
    Hello,
    Inspect,
    Leave,
    Renew,
    Wake,
    WireInspection,
    WireStanding,
    WireTraits,
)
from fencelock.io.simulated import SimulatedIO
from fencelock.observe.audience import Audience
from fencelock.torture.network import FaultyEngine
from fencelock.torture.simulate import Simulation, SimulationResult, main
from fencelock.torture.workers import SimulatedClient


class SimulatedReplica:
    """A replica that can die. It has no state but its lines."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.up = True
        self.lines: list[SimulatedLine] = []

    def die(self) -> None:
        self.up = False
        for line in self.lines:
            line.cut()
        self.lines.clear()


class SimulatedLine(Link):
    """A line from one process to one replica."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node: SimulatedNode = node
        self.broken: RequestFailed | None = None
        self._engine = node.engine
        self._parked: dict[str, Ticket] = {}

    async def exchange(self, act: AnyAct, timeout: float, waiter: str = "") -> Answer:
        self._check()
        try:
            answer = await self._perform(act, timeout)
            if waiter and isinstance(act, Enter) and waits(answer):
                self._parked[waiter] = act.tickets[0].unpack()
            if not self.node.is_up(self):  # it died before it could answer
                raise RequestFailed("the replica died", "unknown", "closed")
            return answer
        except BaseException as error:
            if isinstance(act, Enter):
                self._parked.pop(waiter, None)
                self._engine.unpark(act.tickets[0].unpack())
            if isinstance(error, EngineError):
                raise RequestFailed(str(error), error.outcome) from error
            raise

    def _check(self) -> None:
        if self.broken is not None:
            raise self.broken

    async def _perform(self, act: AnyAct, timeout: float) -> Answer:
        engine = self._engine
        match act:
            case Enter(tickets, _, if_free):
                standing = await engine.enter(tickets[0].unpack(), if_free=if_free, timeout=timeout)
                return Answer(standings=[WireStanding.pack(standing)])
            case Renew(tickets):
                asked = [each.unpack() for each in tickets]
                found = await engine.renew(asked, timeout=timeout)
                return Answer(standings=[each and WireStanding.pack(each) for each in found])
            case Leave(ticket, _, departure):
                asking = ticket.unpack()
                done = await engine.leave(asking, timeout=timeout, departure=departure)
                return Answer(done=done)
            case Evict(name):
                return Answer(done=await engine.evict(name, timeout=timeout))
            case Inspect(name, _, limit):
                seen = await engine.inspect(name, limit=limit, timeout=timeout)
                return Answer(seen=WireInspection.pack(seen))
        raise AssertionError(f"the simulated workers never ask for {act!r}")

    async def listen(self, waiter: str, timeout: float) -> Wake | None:
        if self.broken is not None or waiter not in self._parked:
            raise RequestFailed("the replica died", "not applied", "closed")
        until = self._engine.io.now() + timeout
        try:
            standing = await self._engine.park(self._parked[waiter], until)
        except EngineError as error:
            raise RequestFailed(str(error), "not applied", "closed") from error
        return None if standing is None else Wake(waiter, WireStanding.pack(standing))

    def cut(self) -> None:
        """The replica has died: wake every ticket that waits on this line."""
        self.broken = RequestFailed("the replica died", "not applied", "closed")
        for id in self._parked:
            parked = self._engine.parked.get(id)
            if parked is not None:
                parked.broken = True
                parked.event.set()

    def forget(self, waiter: str) -> None:
        ticket = self._parked.pop(waiter, None)
        if ticket is not None:
            self._engine.unpark(ticket)

    def dismiss(self, waiter: str) -> None:
        ticket = self._parked.get(waiter)
        if ticket is not None:
            self._engine.interrupt(ticket)

    interrupt = dismiss

    def close(self) -> None:
        self.cut()


class SimulatedNode(Node):
    """The way of one process to one replica."""

    def __init__(self, replica: SimulatedReplica, engine: FaultyEngine) -> None:
        super().__init__(f"replica-{replica.number}", 80, Login("/v1/line"))
        self.engine = engine
        self._replica = replica
        self._line: SimulatedLine | None = None

    def is_up(self, line: SimulatedLine) -> bool:
        """Whether the replica has lived on since this line began."""
        return line in self._replica.lines

    def ready(self) -> SimulatedLine | None:
        return None if self._line is None or self._line.broken else self._line

    async def connect(self, timeout: float) -> SimulatedLine:
        self._check_open()
        await self.engine.io.sleep(0)
        if not self._replica.up:
            raise RequestFailed(f"can't connect to {self}", "not applied")
        line = self.ready()
        if line is None:
            line = self._line = SimulatedLine(self)
            self._replica.lines.append(line)
        self.met(Hello("0", "memory", WireTraits.pack(self.engine.traits), self.host))
        return line

    def give(self, link: Link, waiter: str = "") -> None:
        assert isinstance(link, SimulatedLine)
        link.forget(waiter)

    async def close(self) -> None:
        self._closed = True
        if self._line is not None:
            self._line.close()


class ServiceSimulation(Simulation):
    """All faults of the simulation, and replicas that die."""

    module = "fencelock.torture.replicas"

    def __init__(self, seed: int) -> None:
        self.replicas = [SimulatedReplica(number) for number in range(3)]
        super().__init__(seed)

    def _client(self, number: int) -> SimulatedClient:
        io: SimulatedIO = self.world.process(f"p{number}")
        network = FaultyEngine(self.network, io)
        engine = HttpEngine([SimulatedNode(each, network) for each in self.replicas], "http", io)
        observers = [self.history.observer(io)] if self.seed % 2 == 0 else []
        return SimulatedClient(io, network, self.context(engine, io, Audience(observers)))

    def _plan_faults(self) -> None:
        super()._plan_faults()
        for _ in range(self.random.choice((1, 3, 8))):
            moment = self.random.uniform(self.world.time, self.history.calm_at)
            self.world.at(moment, self._kill_a_replica)

    def _kill_a_replica(self) -> None:
        replica = self.random.choice(self.replicas)
        if replica.up:
            self.history.counts["replicas died"] += 1
            self.world.log(f"replica-{replica.number}", "dies")
            replica.die()
            seconds = self._until_calm(self.random.random() * 3.0)
            self.world.after(seconds, lambda: setattr(replica, "up", True))


def simulate_service(seed: int) -> SimulationResult:
    """Run one seed with replicas."""
    return ServiceSimulation(seed).run()


if __name__ == "__main__":
    sys.exit(main(kind=ServiceSimulation))
