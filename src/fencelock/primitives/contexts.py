"""Which context a client uses here and now: one per process, and with asyncio one per event loop."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress

from fencelock.core.errors import FencelockError
from fencelock.engines.contract import Guarantee, Traits
from fencelock.io.blocking import run
from fencelock.observe.audience import flush_at_exit
from fencelock.primitives.claim import PROGRAM_ENDED
from fencelock.primitives.context import Context

_all: weakref.WeakSet[Contexts] = weakref.WeakSet()

_inherited: list[Context] = []
"""The contexts of the parent process. They are never freed here: some drivers would say goodbye on the
parent's connections."""


class Contexts:
    """The contexts of one client. A client at module level works after a fork, and in a second event loop."""

    def __init__(self, make: Callable[[], Context]) -> None:
        self._make = make
        # The first one is made now, without I/O: a wrong URL is noticed here, and the traits are known.
        self._first: Context | None = make()
        self._traits = self._first.engine.traits
        self._required: Guarantee = "efficiency"
        self.default_ttl = self._traits.default_ttl
        self._place = self._first.io.place
        self._contexts: dict[object, Context] = {}
        self._mutex = threading.RLock()  # re-entrant, as the context's is
        self.current: Context | None = None
        """The context of a blocking client in this process, once it was used. Saves the hot path a call."""
        _all.add(self)

    @property
    def traits(self) -> Traits:
        """What the engine promises: what it is known to, as soon as one of the contexts has met it."""
        if self._traits.provisional:
            known = (context.engine.traits for context in self.every())
            self._traits = next((each for each in known if not each.provisional), self._traits)
        return self._traits

    def require(self, guarantee: Guarantee) -> None:
        """From now on every ticket needs this. For engines that don't know yet what they can promise."""
        self._required = guarantee
        for context in [*self.every(), *([self._first] if self._first else [])]:
            self._tell(context)

    def _tell(self, context: Context) -> None:
        for engine in context.bare_engine.parts():
            engine.required = self._required

    def here(self) -> Context:
        """The context of this process and event loop."""
        place = self._place()
        return self._contexts.get(place) or self._add(place)

    def every(self) -> list[Context]:
        """All contexts of this process."""
        return list(self._contexts.values())

    def _add(self, place: object) -> Context:
        with self._mutex:
            if place in self._contexts:  # another thread was faster
                return self._contexts[place]
            for ended in [key for key, context in self._contexts.items() if context.io.over]:
                self._contexts.pop(ended).abandon()
            context, self._first = self._first or self._make(), None
            self._tell(context)
            context.io.verify()  # binds it to this event loop
            # A signal handler may have been faster.
            context = self._contexts.setdefault(place, context)
            context.contexts = self
            if context.io.blocking:
                self.current = context
            return context

    def forked(self) -> None:
        """Start afresh in a forked child: nothing is held, and all connections are new."""
        inherited = [*self.every(), *([self._first] if self._first else [])]
        for context in inherited:
            context.foreign = True
        _inherited.extend(inherited)
        self._first = self.current = None
        self._contexts = {}
        self._mutex = threading.RLock()

    def end(self) -> None:
        """Release what is held when the program ends. It counts as lost first: daemon threads may go on."""
        for context in self.every():
            if context.closing or (context.idle and not (context.entering or context.sweeper)):
                continue
            if not context.io.blocking:
                context.abandon()
                continue
            with suppress(FencelockError, RuntimeError):  # the ttl ends what can't be released now
                run(context.close(PROGRAM_ENDED))


def _forked() -> None:
    for contexts in list(_all):
        contexts.forked()


@atexit.register
def _end() -> None:
    for contexts in list(_all):
        contexts.end()
    flush_at_exit()  # after that, because observers hear of what it released


os.register_at_fork(after_in_child=_forked)
