"""Events as lines of the standard log, with their fields in `extra`.

The library always logs what people must know: a lost lease, a lease that is held for too long, a process that
stood still, a fence that fell. The observer `Log` adds a line for every other event.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from logging import DEBUG, ERROR, INFO, WARNING
from typing import Any, NamedTuple

from fencelock.observe import events
from fencelock.observe.events import Event


class _Line(NamedTuple):
    level: int
    part: str
    """The part of the library that the line is about. Its logger is `fencelock.` and this."""
    text: str
    """Is formatted with the fields of the event."""


_ALWAYS: dict[type[Event], _Line] = {
    events.HeldLong: _Line(
        WARNING,
        "lease",
        "lease on {name!r} has been held for {held_for:.1f} s; it was acquired here:\n{stack}",
    ),
    events.FenceFell: _Line(
        ERROR,
        "engine",
        "fences have fallen: {name!r} got {fence}, after {newest}. The engine has lost its memory, or a "
        "backup was restored: storage that checks fences refuses the new holders",
    ),
    events.Paused: _Line(
        WARNING,
        "keeper",
        "this process stood still: renewals are {seconds:.1f} s late, so leases may be lost",
    ),
}

_OTHERS: dict[type[Event], _Line] = {
    events.Asked: _Line(DEBUG, "lease", "{name!r}: asked for, with a timeout of {timeout:g} s"),
    events.Queued: _Line(DEBUG, "lease", "{name!r}: not free, so the ticket waits"),
    events.Granted: _Line(DEBUG, "lease", "{name!r}: fence {fence} granted after {waited:.4f} s"),
    events.Refused: _Line(DEBUG, "lease", "{name!r}: not free, and the caller does not wait"),
    events.TimedOut: _Line(INFO, "lease", "{name!r}: not free within {waited:.3f} s"),
    events.GaveUp: _Line(DEBUG, "lease", "{name!r}: the caller gave up after {waited:.3f} s"),
    events.Failed: _Line(WARNING, "lease", "{name!r}: {error} after {waited:.3f} s"),
    events.Renewed: _Line(DEBUG, "lease", "{name!r}: renewed, {margin:.3f} s before its end"),
    events.Suspended: _Line(
        WARNING, "lease", "{name!r}: not renewed; {remaining:.3f} s are left until its end"
    ),
    events.Resumed: _Line(INFO, "lease", "{name!r}: the engine answers again"),
    events.Released: _Line(DEBUG, "lease", "{name!r}: released after {held_for:.4f} s"),
    events.Broken: _Line(WARNING, "lease", "{name!r}: taken from its holder by {owner}"),
    events.StaleFence: _Line(
        WARNING, "guard", "{name!r}: fence {given} refused, as the storage has seen {newest}"
    ),
    events.EngineRequest: _Line(
        DEBUG, "engine", "{operation} at {engine}: {outcome} after {seconds:.4f} s"
    ),
}


class Log:
    """An observer that logs every event: `fencelock.observe.add(Log())`. Most lines have the level DEBUG.

    The loggers are `fencelock.lease`, `fencelock.engine`, `fencelock.guard` and `fencelock.keeper`. A record
    has the fields of the event as attributes; the name of the lock is its attribute `lock`.
    """

    prompt = True  # so a record has the time and the thread of its event
    uses_no_lock = True

    def __call__(self, event: Event) -> None:
        """Log this event, unless the library logs it in any case."""
        line = _OTHERS.get(type(event))
        if line is not None:
            _write(line, event)


def write(event: Event) -> None:
    """Log an event that people must know of, with or without a `Log`."""
    _write(_ALWAYS[type(event)], event)


def _write(line: _Line, event: Event) -> None:
    level, part, text = line
    if getattr(event, "abandoned", False) or getattr(event, "outcome", "ok") != "ok":
        level = max(level, INFO)
    logger = logging.getLogger(f"fencelock.{part}")
    if logger.isEnabledFor(level):
        fields: dict[str, Any] = asdict(event)
        message = text.format(**fields)
        if "name" in fields:
            fields["lock"] = fields.pop("name")  # the `name` of a record is the logger's
        if "owner" in fields:
            fields["owner"] = str(fields["owner"])  # as in all other records
        logger.log(level, "%s", message, extra=fields)
