"""Whether events tell a whole story of each ticket: one beginning, one end, and nothing after that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencelock.observe.events import (
    Asked,
    Event,
    Failed,
    GaveUp,
    Granted,
    Lost,
    Queued,
    Refused,
    Released,
    TicketEvent,
    TimedOut,
)

_WITHOUT_A_LEASE = (Refused, TimedOut, GaveUp, Failed)
_WITH_A_LEASE = (Released, Lost)
_BEFORE_THE_LEASE = (Asked, Queued, *_WITHOUT_A_LEASE)


def odd_stories(events: Iterable[Event], *, over: bool = True) -> Iterator[str]:
    """The tickets whose events make no sense. `over`: every story must have ended."""
    stories: dict[int, list[TicketEvent]] = {}
    for event in events:
        if isinstance(event, TicketEvent):
            stories.setdefault(event.ticket, []).append(event)
    for number, story in stories.items():
        words = " ".join(type(event).__name__ for event in story)
        for problem in _problems(story, over):
            yield f"ticket {number} for {story[0].name!r} {problem}: {words}"


def _problems(story: list[TicketEvent], over: bool) -> Iterator[str]:
    asked = [event for event in story if isinstance(event, Asked)]
    grants = [event for event in story if isinstance(event, Granted)]
    ends = [event for event in story if isinstance(event, _WITHOUT_A_LEASE + _WITH_A_LEASE)]
    if len(asked) != 1 or story[0] is not asked[0]:
        yield "does not begin with its only Asked"
    if len(grants) > 1:
        yield "was granted twice"
    if len(ends) > 1:
        yield "has two ends"
    if ends and story[-1] is not ends[-1]:
        yield "goes on after its end"
    if over and not ends:
        yield "has no end"
    if ends and isinstance(ends[0], _WITH_A_LEASE) != bool(grants):
        yield "ends with a lease that it never got, or without the one that it got"
    held = False
    for event in story:
        held = held or isinstance(event, Granted)
        if held == isinstance(event, _BEFORE_THE_LEASE):
            yield f"has {type(event).__name__} at the wrong time"
    if len({getattr(event, "fence", None) for event in story} - {None}) > 1:
        yield "changed its fence"
