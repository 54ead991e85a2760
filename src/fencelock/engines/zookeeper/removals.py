"""The requests with which tickets are taken out, whoever does it."""

from __future__ import annotations

from typing import Any

from fencelock.engines.zookeeper import requests as ask
from fencelock.engines.zookeeper.admission import Line
from fencelock.engines.zookeeper.nodes import Mark, farewell, sequence
from fencelock.engines.zookeeper.own import Own


def parting(root: str, own: Own, abandoned: bool, acl: Any, *, aloud: bool) -> Any:
    """Take out one that holds alone, and say how it departs; `aloud` to the next one too, if all is well."""
    mark = Mark(sequence(own.node), abandoned).pack()
    if abandoned or not aloud:
        return ask.depart(own.path, own.parent, mark)
    return ask.release(own.path, farewell(root, own.node), own.parent, mark, acl)


def removal(parent: str, node: str, turn: str | None, version: int = -1) -> Any:
    """Take out a ticket that shares: nothing has to be said about it."""
    path = f"{parent}/{node}"
    if turn is None:
        return ask.delete(path, version)
    return ask.delete_both(path, f"{parent}/{turn}", version)


def expiry(parent: str, line: Line, node: str, version: int) -> Any:
    """Take out somebody else's ticket, unless it has been renewed since."""
    path, place = f"{parent}/{node}", line.nodes.index(node)
    if line.share(node).group:
        return removal(parent, node, line.turn_of(node), version)
    if place == 0:
        mark = Mark(sequence(node), abandoned=True)
        return ask.depart(path, parent, mark.pack(), version)
    return ask.withdraw(path, f"{parent}/{line.nodes[place - 1]}", version)
