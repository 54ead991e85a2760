"""How an attempt to acquire a lock may end, in the words of spans and metrics."""

from __future__ import annotations

from fencelock.observe.events import Event, Failed, GaveUp, Granted, Refused, TimedOut

Attempt = Granted | Refused | TimedOut | GaveUp | Failed
"""The event at the end of an attempt."""

OUTCOMES: dict[type[Event], str] = {
    Granted: "granted",
    Refused: "refused",
    TimedOut: "timeout",
    GaveUp: "cancelled",
    Failed: "error",
}
