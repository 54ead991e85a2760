"""The thread that asks the engine. The thread that draws and reads keys never waits for an engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from fencelock.cli.break_ import changed_hands
from fencelock.cli.listing import owner_text
from fencelock.cli.top.model import Look, Poll, Trouble, choose
from fencelock.core.backoff import Backoff
from fencelock.core.errors import EngineError, FencelockError
from fencelock.core.ticket import Holder
from fencelock.io.clock import now

if TYPE_CHECKING:
    from fencelock.client import Client

SHARE = 0.05
"""The part of the time in which we ask the engine. A poll that takes long makes the next one later."""

MAX_NAMES = 20_000
"""More names are not shown: to sort them would make the keys slow."""

MAX_LOOKS = 300
"""How many names a poll looks at."""

MIN_LOOKS = 20
"""How many names a poll looks at besides those on the screen, even if that takes long."""

MAX_WAITERS = 200
"""How many waiters of an opened name are listed."""

MAX_PAUSE = 5.0
"""Seconds between two tries while the engine does not answer."""


class Wish(NamedTuple):
    """What the view shows, so what a poll looks at first."""

    visible: tuple[str, ...] = ()
    opened: str | None = None
    """The name whose queue is shown."""
    preferred: Callable[[str], bool] = lambda name: True
    """Whether a name matches the filter."""


class Open(NamedTuple):
    """A request: look at this name and its queue now."""

    name: str


class Break(NamedTuple):
    """A request: take a name away from these holders, and from no other."""

    name: str
    holders: tuple[Holder, ...]


class Refresh(NamedTuple):
    """A request: poll soon."""


class Stop(NamedTuple):
    """A request: end."""


Request = Open | Break | Refresh | Stop


class Crash(NamedTuple):
    """A bug has ended the thread."""

    error: BaseException


Report = Poll | Trouble | Look | Crash | str
"""What the thread tells. A text is for the user."""


class Poller:
    """Polls an engine and does what the user asked for, one request after the other."""

    def __init__(
        self, client: Client, pattern: str, interval: float, tell: Callable[[Report], None]
    ) -> None:
        self.wish = Wish()
        self.asking_since: float | None = None
        """When the request under way was sent. None: there is none."""
        self._client = client
        self._pattern = pattern
        self._interval = interval
        self._tell = tell
        self._requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
        self._backoff = Backoff(min(interval, MAX_PAUSE), MAX_PAUSE, Random())
        self._looked_at: dict[str, float] = {}
        self._took = 0.0
        """How long the last poll took."""
        self._stopped = False
        # A daemon: a request that hangs must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name="fencelock-top", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def ask(self, request: Request) -> None:
        """Let the thread do this next. Returns at once."""
        self._requests.put(request)

    def stop(self, timeout: float) -> bool:
        """End the thread. Returns False if it still waits for the engine after so many seconds."""
        self.ask(Stop())
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopped:
                began = now()
                self._serve(began, now() + self._poll(began))
        except BaseException as error:
            self._tell(Crash(error))

    def _poll(self, began: float) -> float:
        """Ask the engine for all names, and look at some of them. Returns the pause until the next poll."""
        try:
            with self._asking():
                names = self._client.names(self._pattern)
            names, more = names[:MAX_NAMES], max(0, len(names) - MAX_NAMES)
            looks = self._look_at(names, now() - began)
        except FencelockError as error:
            pause = self._backoff.next()
            self._tell(Trouble(str(error), now() + pause))
            return pause
        self._backoff.reset()
        took, before = now() - began, self._took
        self._took = took
        # One slow answer is no slow engine: the shorter of two polls counts.
        pause = max(self._interval, min(took, before) * (1 / SHARE - 1))
        self._tell(Poll(began, took, pause, names, more, looks))
        return pause

    def _look_at(self, names: list[str], listing_took: float) -> dict[str, Look]:
        looks: dict[str, Look] = {}
        wish, began = self.wish, now()
        budget = max(SHARE * self._interval, listing_took)
        known = self._looked_at
        self._looked_at = {name: known[name] for name in names if name in known}
        order = choose(names, wish.visible, self._looked_at, wish.preferred)
        for name in order[:MAX_LOOKS]:
            late = now() - began > budget
            if self._stopped or (late and len(looks) >= len(wish.visible) + MIN_LOOKS):
                break
            limit = MAX_WAITERS if name == wish.opened else 0
            with self._asking():
                seen = self._client.inspect(name, limit=limit)
            looks[name] = Look(now(), seen)
            self._looked_at[name] = now()
            self._serve(began, until=0.0)
        return looks

    def _serve(self, polled_at: float, until: float) -> None:
        """Do what the user asks for, until a moment."""
        while not self._stopped:
            try:
                request = self._requests.get(timeout=max(0.0, until - now()))
            except queue.Empty:
                return
            match request:
                case Stop():
                    self._stopped = True
                case Refresh():  # a key that is held down must not keep the engine busy
                    until = min(until, polled_at + self._interval)
                case Open(name):
                    self._look(name)
                case Break(name, holders):
                    self._tell(self._break(name, holders))
                    self._look(name)

    def _look(self, name: str) -> None:
        try:
            with self._asking():
                seen = self._client.inspect(name, limit=MAX_WAITERS)
        except FencelockError:
            return  # the next poll says why
        self._tell(Look(now(), seen))

    def _break(self, name: str, holders: tuple[Holder, ...]) -> str:
        """Break a lock, and say what came of it. The engine can't compare the fence in the same request."""
        shown = repr(name)
        try:
            with self._asking():
                if changed_hands(self._client, name, holders):
                    return f"{shown} has another holder now: it was not broken"
        except FencelockError as error:
            return f"{shown} was not broken: {error}"
        try:
            with self._asking():
                broken = self._client.break_lock(name)
        except FencelockError as error:
            unknown = isinstance(error, EngineError) and error.outcome == "unknown"
            verb = "may be" if unknown else "was not"
            return f"{shown} {verb} broken: {error}"
        if not broken:
            return f"nobody holds {shown} any more"
        return f"broken: {shown} was held by {', '.join(map(owner_text, holders))}"

    @contextmanager
    def _asking(self) -> Iterator[None]:
        self.asking_since = now()
        try:
            yield
        finally:
            self.asking_since = None
