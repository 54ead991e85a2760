"""An observer that remembers what it heard."""

from __future__ import annotations

from typing import TypeVar

from fencelock.observe import Event
from fencelock.torture.stories import odd_stories

E = TypeVar("E", bound=Event)


class Recorder:
    """Hears of each event at once, in the thread or task in which it happens."""

    prompt = True

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def heard(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in list(self.events) if isinstance(event, kind)]

    def words(self) -> list[str]:
        """The kinds of all events, in order, without the requests."""
        return [
            word for event in list(self.events) if (word := type(event).__name__) != "EngineRequest"
        ]

    def oddities(self, *, interrupted: bool = False) -> list[str]:
        """What is wrong with the stories. An interruption may come between an end and its event."""
        return list(odd_stories(list(self.events), over=not interrupted))
