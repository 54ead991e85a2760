"""A simulated world in which nothing goes wrong unless a test says so."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fencelock.core.ticket import Inspection, Owner
from fencelock.io.simulated import START, SimulatedTask, World
from fencelock.primitives.keeper import Keeper
from fencelock.primitives.lease import AsyncLease
from fencelock.primitives.lock import AsyncLock
from fencelock.primitives.options import LockOptions
from fencelock.torture.network import Deed, FaultyEngine, Network, Server, _Reply
from fencelock.torture.workers import Home

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

    def send(self, engine: FaultyEngine, what: str, deed: Deed[Any], reply: _Reply) -> None:
        self.world.log(engine.io.name, f"sends {what}")
        self.open_replies.append(reply)
        late = self.request(what) or 0.0
        if self._passes(engine) and late < 1e9:
            self.world.after(late + 0.001, lambda: self._deliver(engine, what, deed, reply))

    def _deliver(
        self, engine: FaultyEngine, what: str, deed: Deed[Any], reply: _Reply | None
    ) -> None:
        if not self._passes(engine):
            return
        answer = deed()
        late = self.reply(what) or 0.0
        if reply is not None and late < 1e9:
            self.world.after(late + 0.001, lambda: reply.arrive(answer))

    def break_connections(self) -> None:
        """Whoever waits for an answer learns that none will come."""
        for reply in self.open_replies:
            reply.fail("unknown")


class Stage:
    """One server, and processes that lock one name. Times are seconds from the start."""

    def __init__(self) -> None:
        self.world = World(1)
        self.server = Server(self.world)
        self.network = ScriptedNetwork(self.world, self.server)
        self.homes: list[Home] = []

    @property
    def now(self) -> float:
        return self.world.time - START

    def process(self, name: str) -> Home:
        io = self.world.process(name, rate=1.0)
        engine = FaultyEngine(self.network, io)
        home = Home(io, engine, Keeper(engine, io))
        self.homes.append(home)
        return home

    def lock(
        self,
        home: Home,
        label: str,
        ttl: float,
        *,
        timeout: float | None = None,
        on_lost: Callable[[AsyncLease], Any] | None = None,
        name: str = NAME,
    ) -> AsyncLock:
        owner = Owner(home.io.name, 1, label)
        options = LockOptions(owner, ttl=ttl, timeout=timeout, on_lost=on_lost)
        return AsyncLock(home.keeper, name, options)

    def start(self, home: Home, coroutine: Coroutine[Any, Any, Any]) -> SimulatedTask:
        return home.io.spawn(coroutine, "scene")

    def at(self, seconds: float, act: Callable[[], Any]) -> None:
        self.world.at(START + seconds, act)

    def run(self, until: float | None = None) -> None:
        """Play on; without a limit, until nobody has anything to do any more."""
        if until is None:
            self.world.run(START + 3600.0)
        else:
            self.world.run(START + until)
        assert not self.world.failures

    def seen(self, name: str = NAME) -> Inspection:
        """Who holds and who waits at the server, now."""
        return self.server.inspect(name, 100)

    def nothing_left(self) -> bool:
        """Whether nothing is kept, cleaned up, parked or running in any process."""
        return not any(
            home.io.tasks or not home.keeper.idle or home.keeper.sweeper or home.engine.parked
            for home in self.homes
        )
