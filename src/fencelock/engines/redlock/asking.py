"""One question to all nodes, and what to make of each answer as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.lines import Lines
from fencelock.engines.redlock.members import Members
from fencelock.engines.redlock.scripts import LOADING
from fencelock.engines.resp.advice import WRONG_SERVER, first_word, rejection
from fencelock.engines.resp.wire import forgotten
from fencelock.io import clock


class Request(NamedTuple):
    """What to ask one node, in one write: packed commands, and how many replies there will be."""

    node: int
    payload: bytes
    replies: int = 1

    @classmethod
    def of(cls, node: int, commands: list[bytes]) -> Request:
        return cls(node, b"".join(commands), len(commands))


Take = Callable[[int, list[Any] | None], Sequence[Request]]
"""Takes in a node's replies, or None if there are none, and says what to ask next."""


async def ask(
    members: Members,
    lines: Lines,
    requests: Iterable[Request],
    take: Take,
    decided: Callable[[], bool],
    patience: float,
) -> None:
    """Ask until it is decided. A node without a line, or slower than `patience`, counts as failed."""
    asked: dict[int, Request] = {}
    reminded: set[int] = set()

    def send(more: Iterable[Request]) -> None:
        for request in more:
            asked[request.node] = request
            lines.send(*request)

    lines.begin()
    send(requests)
    if len(asked) < len(lines.links):
        for node, link in enumerate(lines.links):
            if link is None and node not in asked:
                send(take(node, None))
    until = clock.now() + patience
    while not decided():
        heard = await lines.hear(until)
        if heard is None:
            silent = lines.silent()
            if not silent:
                return
            for node in silent:
                why = RequestFailed(f"no answer within {patience:.3g} s", "unknown")
                members.fail(lines, node, why)
                send(take(node, None))
            continue
        node, replies = heard
        if isinstance(replies, RequestFailed):
            members.fail(lines, node, replies)
            send(take(node, None))
            continue
        errors = [reply for reply in replies if isinstance(reply, hiredis.ReplyError)]
        if not errors:
            more = take(node, replies)
            if more:
                until = clock.now() + patience
                send(more)
        elif node not in reminded and any(forgotten(error) for error in errors):
            # All scripts, and not only this one: nobody looks whether a node knows `release`.
            reminded.add(node)
            lines.tell(*Request.of(node, LOADING))
            lines.send(*asked[node])
        else:
            trouble = rejection(errors[0])
            if first_word(trouble) in WRONG_SERVER:
                members.fail(lines, node, trouble)
            else:
                members.all[node].complaint = trouble
            send(take(node, None))
