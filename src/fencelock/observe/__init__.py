"""See what the locks of a program do: events, and observers that hear of them.

    client = fencelock.Client(url, observers=[print])    # what this client does
    fencelock.observe.add(Metrics())                     # what every client of this process does

An observer is any callable that takes an event. It is called in a thread of its own, so it may be slow. If
ten thousand events wait for it, it misses the next ones. Its errors are logged, once. An observer with the
attribute `prompt = True` is called at once, in the thread or event loop that works with the lock: it must
not wait for anything. No observer hears of what an observer does.

Two more attributes make a prompt observer cheaper. `uses_no_lock = True` is a promise. `ignores` is a tuple
of event classes: if all observers ignore a kind of event, it is not made. (Today only `Asked` is left out.)
"""

from typing import TYPE_CHECKING

from fencelock.observe.audience import add, remove
from fencelock.observe.observer import Observer

if TYPE_CHECKING:
    from fencelock.observe.delivery import flush
    from fencelock.observe.events import (
        Asked,
        Broken,
        EngineRequest,
        Event,
        Failed,
        FenceFell,
        GaveUp,
        Granted,
        HeldLong,
        Lost,
        Paused,
        Queued,
        Refused,
        Released,
        Renewed,
        Resumed,
        StaleFence,
        Suspended,
        TicketEvent,
        TimedOut,
    )
    from fencelock.observe.logging import Log
else:
    # What a program without observers does not need is imported when it is first used.
    _LATER = {"Log": "logging", "flush": "delivery"}

    def __getattr__(name):
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module 'fencelock.observe' has no attribute {name!r}")
        module = import_module(f"fencelock.observe.{_LATER.get(name, 'events')}")
        globals()[name] = getattr(module, name)
        return globals()[name]


__all__ = [
    "Asked",
    "Broken",
    "EngineRequest",
    "Event",
    "Failed",
    "FenceFell",
    "GaveUp",
    "Granted",
    "HeldLong",
    "Log",
    "Lost",
    "Observer",
    "Paused",
    "Queued",
    "Refused",
    "Released",
    "Renewed",
    "Resumed",
    "StaleFence",
    "Suspended",
    "TicketEvent",
    "TimedOut",
    "add",
    "flush",
    "remove",
]
