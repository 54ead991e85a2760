"""A simulated world in which nothing goes wrong unless a test says so."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fencelock.core.ticket import Inspection, Owner
from fencelock.io.simulated import START, SimulatedTask, World
from fencelock.primitives.context import Context
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.torture.network import Action, FaultyEngine, Network, Server, _Reply
from fencelock.torture.workers import SimulatedClient

NAME = "order:42"

Fate = Callable[[str], float | None]
"""For a request such as "enter a": None if all is well, else how late it is; infinite: lost."""


class ScriptedNetwork(Network):
    """Loses and delays exactly what the test asks for, silently."""

    request: Fate = staticmethod(lambda what: None)
    reply: Fate = staticmethod(lambda what: None)

    def __init__(self, world: World, server: Server) -> None:
        super().__init__(world, server)
        self.open_replies: list[_Reply] = []

    def send(self, engine: FaultyEngine, what: str, action: Action[Any], reply: _Reply) -> None:
        self.world.log(engine.io.name, f"sends {what}")
        self.open_replies.append(reply)
        late = self.request(what) or 0.0
        if self._passes(engine) and late < 1e9:
            self.world.after(late + 0.001, lambda: self._deliver(engine, what, action, reply))

    def _deliver(
        self, engine: FaultyEngine, what: str, action: Action[Any], reply: _Reply | None
    ) -> None:
        if not self._passes(engine):
            return
        answer = action()
        late = self.reply(what) or 0.0
        if reply is not None and late < 1e9:
            self.world.after(late + 0.001, lambda: reply.arrive(answer))

    def break_connections(self) -> None:
        """Tell every caller that waits for an answer that none will come."""
        for reply in self.open_replies:
            reply.fail("unknown")


class Stage:
    """One server, and processes that lock one name. Times are seconds from the start."""

    def __init__(self) -> None:
        self.world = World(1)
        self.server = Server(self.world)
        self.network = ScriptedNetwork(self.world, self.server)
        self.clients: list[SimulatedClient] = []
        self.leases: list[AsyncLease] = []
        """Leases that are never released: if their objects were gone, nobody would renew them."""

    @property
    def now(self) -> float:
        return self.world.time - START

    def process(self, name: str) -> SimulatedClient:
        io = self.world.process(name, rate=1.0)
        engine = FaultyEngine(self.network, io)
        client = SimulatedClient(io, engine, Context(engine, io))
        self.clients.append(client)
        return client

    def lock(
        self,
        client: SimulatedClient,
        label: str,
        ttl: float,
        *,
        timeout: float | None = None,
        on_lost: Callable[[AsyncLease], Any] | None = None,
        name: str = NAME,
        **others: Any,
    ) -> AsyncLock:
        owner = Owner(client.io.name, client.context.pid, label)
        options = LockOptions(owner, ttl=ttl, timeout=timeout, on_lost=on_lost, **others)
        return AsyncLock(client.contexts, name, options)

    def start(self, client: SimulatedClient, coroutine: Coroutine[Any, Any, Any]) -> SimulatedTask:
        return client.io.spawn(coroutine, "scene")

    def at(self, seconds: float, act: Callable[[], Any]) -> None:
        self.world.at(START + seconds, act)

    def run(self, until: float | None = None) -> None:
        """Go on; without a limit, until no task has anything to do."""
        if until is None:
            self.world.run(START + 3600.0)
        else:
            self.world.run(START + until)
        assert not self.world.failures

    def seen(self, name: str = NAME) -> Inspection:
        """The holders and the waiters at the server, now."""
        return self.server.inspect(name, 100)

    def nothing_left(self) -> bool:
        """Whether nothing is kept, cleaned up, parked or running in any process."""
        return not any(
            client.io.tasks
            or not client.context.idle
            or client.context.sweeper
            or client.engine.parked
            for client in self.clients
        )
