"""A state of the explored world, made of plain tuples: millions of them have to be compared."""

from __future__ import annotations

from typing import NamedTuple

NONE, GRANT = 0, -1


class Exchange(NamedTuple):
    """What is under way between one bid and one node, and what the bid knows of the node."""

    request: int = NONE
    """The request under way: a grant (-1), a raise to a fence, or nothing."""
    sent: int = NONE
    """The last request that has arrived. It and the grant may arrive again."""
    answer: int = NONE
    """The answer under way: the fence of a grant, or nothing."""
    seen: int = 0
    asked: bool = False


class Column(NamedTuple):
    """One node, and the exchanges between it and all bids."""

    holder: int
    fence: int
    intact: bool
    floor: int
    ceiling: int
    exchanges: tuple[Exchange, ...]


class BidState(NamedTuple):
    """What a bid knows, apart from its exchanges with nodes."""

    fence: int = 0
    over: bool = False
    began_after: int = 0


class State(NamedTuple):
    """Everything at one moment."""

    columns: tuple[Column, ...]
    bids: tuple[BidState, ...]
    current: tuple[int, ...]
    """How many bids each client has begun."""
    announced: tuple[int, ...]
    again: int
    """How many requests may still arrive a second time."""
    losses: int
    """How many losses of a node's data may still happen."""
    before: tuple[int, ...] = ()
    """The bids that were under way at the last loss of data."""


def without_sent(state: State) -> State:
    """The state in which nothing may arrive a second time any more."""
    columns = tuple(
        column._replace(exchanges=tuple(one._replace(sent=NONE) for one in column.exchanges))
        for column in state.columns
    )
    return state._replace(columns=columns)


def with_column(state: State, index: int, column: Column) -> State:
    """The state with one node changed."""
    columns = (*state.columns[:index], column, *state.columns[index + 1 :])
    return state._replace(columns=columns)


def renumbered(state: State) -> State:
    """The state that stands for all states that differ only in the numbering of the nodes."""
    return state._replace(columns=tuple(sorted(state.columns)))
