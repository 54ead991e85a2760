"""A scene for the live page: programs on several machines hold and want locks, and two come to harm."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

import fencelock
from tests.child import Child
from tests.waiting import eventually

TTL = 30.0


class Scene:
    """Processes that use a service, each as if on a machine of its own. `engine_url` is for looking on."""

    def __init__(self, url: str, engine_url: str) -> None:
        self._url = url
        self._running = ExitStack()
        self._workers: dict[str, Child] = {}
        self._engine = self._running.enter_context(fencelock.Client(engine_url))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._running.close()

    def on(self, host: str) -> Child:
        """The process on a machine. It starts at its first use."""
        if host not in self._workers:
            worker = Child(self._url, host, program="tests.service.live.worker")
            self._workers[host] = self._running.enter_context(worker)
        return self._workers[host]

    def look(self, name: str) -> fencelock.Inspection:
        """What the engine itself says of a name."""
        return self._engine.inspect(name)

    def until(self, name: str, seen: Callable[[fencelock.Inspection], bool], what: str) -> None:
        """Wait until the engine says this of a name."""
        eventually(lambda: seen(self.look(name)), f"{name}: {what}")

    def hold(self, host: str, *names: str, label: str = "", ttl: float = TTL) -> list[int]:
        """Hold these names. Returns the fences."""
        fences: list[int] = self._done(host, "hold", names=names, label=label, ttl=ttl)
        return fences

    def queue(self, host: str, name: str, *, label: str = "", ttl: float = TTL, **how: Any) -> None:
        """Wait for a name. When this returns, the ticket is the last one in the queue."""
        before = self.look(name).waiting
        self._done(host, "queue", name=name, label=label, ttl=ttl, **how)
        self.until(name, lambda seen: seen.waiting > before, f"{host} waits")

    def work(self, host: str, *names: str, label: str = "", seconds: float = 0.02) -> None:
        """Hold each of these names for some seconds, one after the other."""
        self._done(host, "work", names=names, seconds=seconds, label=label)

    def free(self, host: str, name: str) -> None:
        """Release a name."""
        self._done(host, "free", name=name)

    def circle(self, **names: str) -> None:
        """Transactions on these machines, each of which holds its name and waits for that of the next one."""
        hosts = list(names)
        for host in hosts:
            self._done(host, "begin", name=names[host], label="transfer", ttl=TTL)
        for host, other in zip(hosts, hosts[1:] + hosts[:1], strict=True):
            self._done(host, "go_on", began=names[host], name=names[other])
            self.until(names[other], lambda seen: seen.waiting > 0, f"{host} waits")

    def _done(self, host: str, do: str, **arguments: Any) -> Any:
        answer = self.on(host).call(do, **arguments)
        assert not isinstance(answer, dict), f"{host} can't {do}: {answer['text']}"
        return answer

    def shop(self) -> None:
        """A shop at night: much is as it should be, and some is not."""
        for host in ("web-1", "web-2", "web-3"):
            number = int(host[-1])
            orders = [f"order:{1000 + 7 * each + number}" for each in range(6)]
            self.hold(host, *orders, label="checkout")
            self.hold(host, f"customer/{4100 + number}/cart", label="cart")
        for label in ("refund", "support", "audit"):
            self.queue("back-office", "order:1001", label=label)
        self.queue("web-1", "order:1002", label="checkout")

        self.work("batch-1", *(f"thumbnail:{each}" for each in range(25)), label="resize")
        self.hold("batch-1", "thumbnail:31", label="resize")
        self.work("batch-1", *["report/daily"] * 6, label="nightly report", seconds=0.2)
        self.hold("batch-1", "report/daily", label="nightly report")
        for host in ("batch-2", "web-2"):
            self.queue(host, "report/daily", label="reader of the report")

        for host in ("web-1", "web-2", "batch-2"):
            self._done(host, "share", name="geocoder", permits=4, label="address check", ttl=TTL)
            self._done(host, "read", name="catalogue", label="search", ttl=TTL)
        self.queue("back-office", "catalogue", label="price change", writes=True)
        self.circle(**{"pay-1": "account:alice", "pay-2": "account:bob", "pay-3": "account:carol"})
        self.harm()

    def harm(self) -> None:
        """A holder is killed, and another one is stopped. The next waiters get their locks in the end."""
        self.hold("batch-3", "backup", label="nightly backup", ttl=1.0)
        self.queue("batch-4", "backup", label="second try")
        self.hold("batch-5", "migration:users", label="migration", ttl=1.0)
        self.queue("batch-4", "migration:users", label="migration, second try")
        self.on("batch-3").kill()
        self.on("batch-5").stop()
        for name in ("backup", "migration:users"):
            self.until(name, lambda seen: seen.abandoned, "the next one holds it")
