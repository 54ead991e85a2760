"""A state of the explored world, as small as can be: plain tuples, so that millions can be compared."""

from __future__ import annotations

from typing import NamedTuple

NONE, GRANT = 0, -1


class Link(NamedTuple):
    """Between one bid and one node."""

    request: int = NONE
    """Under way: a grant (-1), a raise to a fence, or nothing."""
    sent: int = NONE
    """The last one that has arrived: it and the grant may arrive again."""
    answer: int = NONE
    """Under way: the fence of a grant, or nothing."""
    seen: int = 0
    asked: bool = False


class Column(NamedTuple):
    """One node and all that is between it and the bids."""

    holder: int
    fence: int
    intact: bool
    floor: int
    ceiling: int
    links: tuple[Link, ...]


class Standing(NamedTuple):
    """What a bid knows apart from its links."""

    fence: int = 0
    over: bool = False
    began_after: int = 0


class State(NamedTuple):
    """All there is at one moment."""

    columns: tuple[Column, ...]
    bids: tuple[Standing, ...]
    current: tuple[int, ...]
    """How many bids each client has begun."""
    announced: tuple[int, ...]
    again: int
    """How many requests may still arrive a second time."""
    losses: int
    """How many memories may still be lost."""
    before: tuple[int, ...] = ()
    """The bids under way when the last memory was lost."""


def without_sent(state: State) -> State:
    """Nothing may arrive a second time any more."""
    columns = tuple(
        column._replace(links=tuple(link._replace(sent=NONE) for link in column.links))
        for column in state.columns
    )
    return state._replace(columns=columns)


def with_column(state: State, index: int, column: Column) -> State:
    """One node changed."""
    columns = (*state.columns[:index], column, *state.columns[index + 1 :])
    return state._replace(columns=columns)


def renumbered(state: State) -> State:
    """The one state that stands for all that differ in the numbering of the nodes."""
    return state._replace(columns=tuple(sorted(state.columns)))
