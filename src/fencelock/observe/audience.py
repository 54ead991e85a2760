"""Which observers hear of an event: those of its client, and those of the whole process."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fencelock.observe.observer import Observer, Recorder, busy, complain

if TYPE_CHECKING:  # what a program without observers does not need
    from fencelock.observe.delivery import Delivery
    from fencelock.observe.events import Event

_REMEMBERED = 10_000
"""The number of names whose newest fence a client remembers."""


class Listens(Protocol):
    """Something that works in another way while it is observed."""

    def listening_changed(self) -> None: ...

    def engines(self) -> set[tuple[str, str]]:
        """The kind and the guarantee of each engine that it uses."""


class Tell(Protocol):
    """The type of `Audience.tell`."""

    def __call__(
        self, kind: type[Event], fields: tuple[Any, ...], since: Listeners | None = None, /
    ) -> None: ...


class Listeners(NamedTuple):
    """Some observers: those that are called at once, and those that have a thread of their own."""

    recorders: list[Recorder]
    prompt: list[Observer]
    careful: bool
    """Whether one of these may use a lock itself, and so cause events in its own call."""
    deliveries: list[Delivery]
    need_events: bool
    """Whether there are others than recorders."""

    def that_are_in(self, others: Listeners) -> Listeners:
        """Those of them that are also among the others."""
        return _listeners(
            [each for each in self.recorders if each in others.recorders],
            [each for each in self.prompt if each in others.prompt],
            [each for each in self.deliveries if each in others.deliveries],
        )


class Audience:
    """The observers of one client. The hot path looks at `listening` only."""

    tell: Tell
    """Tell every observer of the event `kind(*fields)`. Never waits, and no error of an observer comes out of
    it. If there are only recorders, nothing else is done than to call them.

    With `since`, only the observers that were there at that time: nobody hears the end of a story without its
    beginning.
    """

    def __init__(self, observers: Iterable[Observer] = ()) -> None:
        self._own: list[Observer] = []
        for observer in observers:
            if _checked(observer) not in self._own:
                self._own.append(observer)
        self.listeners = _listeners([], [], [])
        """All of them. A change makes another object."""
        self._observed: weakref.WeakSet[Any] = weakref.WeakSet()
        self.fences: dict[str, int] = {}
        """The newest fence of each name that this client was given while it was observed."""
        self.listening = False
        """Whether there is an observer."""
        self.ignored: frozenset[type[Event]] = frozenset()
        """Events that need not be made, because every observer says that it `ignores` them."""
        with _mutex:
            _audiences.add(self)
            self.refresh()

    def attach(self, observed: Listens) -> None:
        """Call `observed.listening_changed()` now, and each time when `listening` may have changed."""
        with _mutex:
            self._observed.add(observed)
            observed.listening_changed()

    def join(self, observer: Observer) -> None:
        """Tell this observer from now on, too."""
        with _mutex:
            self._own.append(_checked(observer))
            self.refresh()

    def quit(self, observer: Observer) -> None:
        """Tell an observer that has joined nothing any more."""
        with _mutex:
            self._own.remove(observer)
            self.refresh()

    def refresh(self) -> None:
        """The observers have changed."""
        every = [*_everywhere, *(each for each in self._own if each not in _everywhere)]
        recorders = [each for each in every if isinstance(each, Recorder)]
        others = [each for each in every if not isinstance(each, Recorder)]
        prompt = [each for each in others if getattr(each, "prompt", False)]
        deliveries = _deliveries_to([each for each in others if each not in prompt])
        self.listeners = _listeners(recorders, prompt, deliveries)
        self.listening = bool(every)
        self.tell = self._tell if others or not recorders else self._tell_recorders()
        self.ignored = _ignored(every)
        for observed in list(self._observed):
            observed.listening_changed()

    def teller(self, kind: type[Event]) -> Tell:
        """What tells of events of this kind, until `listening_changed` and without `since`: `tell`, or the
        `record` of the only observer that does not ignore them."""
        recorders, *_, need_events = self.listeners
        hearing = [each for each in recorders if kind not in getattr(each, "ignores", ())]
        return hearing[0].record if len(hearing) == 1 and not need_events else self.tell

    def hears(self, observer: Observer) -> bool:
        """Whether this observer is told of what the client does."""
        return observer in _everywhere or observer in self._own

    def engines(self) -> set[tuple[str, str]]:
        """The kind and the guarantee of each engine that the client uses: ("redis", "efficiency")."""
        return {engine for observed in list(self._observed) for engine in observed.engines()}

    def _tell_recorders(self) -> Tell:
        """Returns what does the same as `_tell` if all observers are recorders, in half of the time."""
        listeners = self.listeners
        records = tuple(each.record for each in listeners.recorders)
        if len(records) == 1:
            return records[0]

        def tell(
            kind: type[Event], fields: tuple[Any, ...], since: Listeners | None = None, /
        ) -> None:
            if since is None or since is listeners:
                for record in records:
                    record(kind, fields)
            else:
                self._tell(kind, fields, since)

        return tell

    def _tell(
        self, kind: type[Event], fields: tuple[Any, ...], since: Listeners | None = None
    ) -> None:
        if busy.now:
            return
        listeners = self.listeners
        if since is not None and since is not listeners:
            listeners = listeners.that_are_in(since)
        recorders, prompt, careful, deliveries, need_events = listeners
        for recorder in recorders:
            recorder.record(kind, fields)
        if not need_events:
            return
        event = kind(*fields)
        if careful:
            busy.now = True
        try:
            for observer in prompt:
                try:
                    observer(event)
                except BaseException:
                    complain(observer)
        finally:
            if careful:
                busy.now = False
        for delivery in deliveries:
            delivery.put(event)

    def report(
        self, kind: type[Event], fields: tuple[Any, ...], since: Listeners | None = None
    ) -> None:
        """Write a line to the log, and tell the observers. For what people must know in any case."""
        from fencelock.observe.logging import write  # seldom needed, and slow to import

        write(kind(*fields))
        self.tell(kind, fields, since)

    def saw_fence(self, name: str, fence: int) -> None:
        """Remember a fence. If there are too many names, forget the one that is known for longest."""
        fences = self.fences
        if fence > fences.get(name, 0):
            fences[name] = fence
        if len(fences) > _REMEMBERED:
            with suppress(RuntimeError):  # another thread changes it now, and forgets one itself
                fences.pop(next(iter(fences), ""), None)


_mutex = threading.RLock()
_audiences: weakref.WeakSet[Audience] = weakref.WeakSet()
_everywhere: list[Observer] = []


def add(observer: Observer) -> None:
    """Tell this observer of everything that happens in this process, from now on.

    It hears of the tickets that ask from now on, not of leases that are held already.
    """
    _checked(observer)
    with _mutex:
        if observer not in _everywhere:
            _everywhere.append(observer)
            _refresh()


def remove(observer: Observer) -> None:
    """Tell an observer that was added nothing any more. If it was not added, nothing happens."""
    with _mutex:
        if observer in _everywhere:
            _everywhere.remove(observer)
            _refresh()


def audiences_of(observer: Observer) -> list[Audience]:
    """The audiences, so the clients, of which this observer hears."""
    with _mutex:
        return [each for each in _audiences if each.hears(observer)]


def flush_at_exit() -> None:
    """At the end of a program, the observers get a second for the events that are left."""
    if "fencelock.observe.delivery" in sys.modules:  # else no observer has a queue
        from fencelock.observe.delivery import flush

        flush(1.0)


def _listeners(
    recorders: list[Recorder], prompt: list[Observer], deliveries: list[Delivery]
) -> Listeners:
    careful = not all(getattr(each, "uses_no_lock", False) for each in prompt)
    return Listeners(recorders, prompt, careful, deliveries, bool(prompt or deliveries))


def _refresh() -> None:
    for audience in list(_audiences):
        audience.refresh()


def _deliveries_to(observers: list[Observer]) -> list[Delivery]:
    if not observers:
        return []
    from fencelock.observe.delivery import delivery_to

    return [delivery_to(each) for each in observers]


def _ignored(observers: list[Observer]) -> frozenset[type[Event]]:
    """The events that all observers ignore."""
    ignored = [frozenset(getattr(each, "ignores", ())) for each in observers]
    return frozenset.intersection(*ignored) if ignored else frozenset()


def _checked(observer: Observer) -> Observer:
    if not callable(observer):
        raise TypeError(f"an observer must be callable with an event, but {observer!r} is not")
    return observer


def _forked() -> None:
    global _mutex
    _mutex = threading.RLock()


os.register_at_fork(after_in_child=_forked)

process = Audience()
"""Hears of what belongs to no client: only the observers of the whole process."""
