"""Wake-ups: one connection per client listens for all of its waiting tickets.

The client opens it when a ticket has to wait, and closes it when no ticket has waited for a while. How
to listen depends on the database.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic

from fencelock.core.ticket import Ticket
from fencelock.engines.failure import RequestFailed
from fencelock.engines.sql.database import W, client_closed
from fencelock.engines.sql.requests import Request
from fencelock.io.contract import IO, Event, Task

log = logging.getLogger("fencelock.engine")

Ask = Callable[[Request, float], Awaitable[list[str]]]
"""Sends a request over any connection of the client, within so many seconds."""


class _Subscription:
    """A ticket that waits, and the wake-up that arrived for it."""

    __slots__ = ("event", "failure", "message", "ticket", "woken")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.event: Event | None = None
        """Set to end the sleep of the waiter. None before it has slept."""
        self.message: str | None = None
        self.woken = False
        """A wake-up arrived, and the ticket has not entered again since: no need to ask for another."""
        self.failure: RequestFailed | None = None

    def wake(self) -> None:
        if self.event is not None:
            self.event.set()


class Listener(ABC, Generic[W]):
    """Receives the wake-ups of one client."""

    IDLE_TIMEOUT: ClassVar = 10.0
    """Seconds without a waiting ticket after which the connection is closed."""

    INTERRUPTED_BY_SLEEPERS: ClassVar = False
    """Whether the listening task must begin anew for each ticket that falls asleep."""

    def __init__(self, ask: Ask, io: IO) -> None:
        self._ask = ask
        self._io = io
        self._mutex = threading.Lock()  # never held across an await, so it serves every io
        self._subscriptions: dict[str, _Subscription] = {}
        self._wire: W | None = None
        self._task: Task | None = None
        self._starting: Event | None = None
        self._interrupted: Event | None = None
        """Set to interrupt the listening task: when the client closes, or for one more sleeper."""
        self._open = False
        self._closed = False
        self.channel = ""
        """Where the database sends our wake-ups. "" if we can't receive any."""

    @abstractmethod
    async def _connect(self, deadline: float) -> W | None:
        """Open a connection to listen on, and set its channel. None if connections can't listen."""

    @abstractmethod
    async def _listen(self, wire: W | None, interrupted: Event) -> None:
        """Deliver wake-ups until `_retire` says True."""

    def subscribe(self, ticket: Ticket) -> bool:
        """Keep the wake-ups for a ticket from now on. Returns False if the client does not listen yet."""
        if not self._open:
            return False
        with self._mutex:
            if self._open:
                self._subscriptions.setdefault(ticket.id, _Subscription(ticket)).woken = False
            return self._open

    def unsubscribe(self, id: str) -> None:
        """Drop the wake-ups for a ticket. A waiter that sleeps wakes up."""
        if id not in self._subscriptions:
            return
        with self._mutex:
            subscription = self._subscriptions.pop(id, None)
        if subscription is not None:
            subscription.wake()

    async def sleep(self, id: str, timeout: float) -> str | None:
        """Sleep until a wake-up for a ticket arrives. Returns its message, None if it has none."""
        with self._mutex:
            subscription = self._subscriptions.get(id)
            if subscription is None:
                return None
            if subscription.event is None:
                subscription.event = self._io.event()
                if subscription.woken:
                    subscription.event.set()
            if self.INTERRUPTED_BY_SLEEPERS and self._interrupted is not None:
                self._interrupted.set()
        await subscription.event.wait(timeout)
        with self._mutex:
            subscription.event.clear()
            message, subscription.message = subscription.message, None
        failure = subscription.failure
        if message is None and failure is not None:
            raise RequestFailed(str(failure), "not applied", failure.code)
        return message

    def interrupt(self, id: str) -> None:
        """End the `sleep` of a ticket."""
        with self._mutex:
            subscription = self._subscriptions.get(id)
        if subscription is not None:
            subscription.wake()

    async def start(self, timeout: float) -> None:
        """Listen from now on. Of many concurrent callers one connects, and the others wait for it."""
        deadline = self._io.now() + timeout
        while True:
            with self._mutex:
                if self._open:
                    return
                if self._closed:
                    raise client_closed()
                ours = self._starting is None
                started = self._starting = self._starting or self._io.event()
            if not ours:
                if not await started.wait(deadline - self._io.now()):
                    raise RequestFailed("no answer while connecting to listen", "not applied")
                continue
            try:
                self._begin(await self._connect(deadline))
            finally:
                with self._mutex:
                    self._starting = None
                started.set()

    async def close(self) -> None:
        """Stop listening. Waiters that sleep wake up and look again."""
        with self._mutex:
            self._closed = True
            task = self._task
            ids = list(self._subscriptions)
            if self._wire is not None:
                self._wire.hang_up()
            if self._interrupted is not None:
                self._interrupted.set()
        for id in ids:
            self.unsubscribe(id)
        if task is not None:
            await task.join()

    def _begin(self, wire: W | None) -> None:
        try:
            with self._mutex:
                if self._closed:
                    raise client_closed()
                self._interrupted = self._io.event()
                work = self._work(wire, self._interrupted)
                self._task = self._io.spawn(work, "fencelock-listener")
                self._wire, self._open = wire, True
        except BaseException:
            if wire is not None:
                wire.close()
            raise

    async def _work(self, wire: W | None, interrupted: Event) -> None:
        try:
            await self._listen(wire, interrupted)
        except RequestFailed as error:
            self._fail(error)
        except Exception as error:
            log.warning("a listener failed; the next waiter starts another one", exc_info=error)
            self._fail(RequestFailed(f"the listener failed: {error!r}", "not applied"))
        except BaseException:  # cancelled from outside
            self._fail(None)
            raise
        finally:
            if wire is not None:
                wire.close()

    # --- for `_listen`

    def _sleepers(self) -> list[Ticket]:
        """All tickets without a wake-up, if any of them sleeps. Most tickets never sleep."""
        with self._mutex:
            waiting = [each for each in self._subscriptions.values() if not each.woken]
            if all(each.event is None for each in waiting):
                return []
            return [each.ticket for each in waiting]

    def _deliver(self, line: str) -> None:
        """Wake a ticket with "ID STANDING", or with "ID" if it should look again."""
        id, _, message = line.partition(" ")
        with self._mutex:
            subscription = self._subscriptions.get(id)
            if subscription is not None:
                # Two may arrive before the waiter runs: the second one replaces the first.
                subscription.woken, subscription.message = True, message or None
        if subscription is not None:
            subscription.wake()

    def _retire(self) -> bool:
        """Stop listening if no ticket waits. Returns whether it stopped."""
        with self._mutex:
            if self._subscriptions and not self._closed:
                return False
            self._reset()
            return True

    def _fail(self, error: RequestFailed | None) -> None:
        """No wake-up will arrive any more: end all sleeps with this error. None: the waiters look again."""
        with self._mutex:
            self._reset()
            subscriptions = list(self._subscriptions.values())
            self._subscriptions.clear()
        for each in subscriptions:
            each.failure = error
            each.wake()

    def _reset(self) -> None:
        self._open, self._wire, self._task, self._interrupted = False, None, None, None
