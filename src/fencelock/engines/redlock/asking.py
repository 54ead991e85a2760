"""One question to all nodes, with each answer handled as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import hiredis

from fencelock.engines.failure import RequestFailed
from fencelock.engines.redlock.node_links import NodeLinks
from fencelock.engines.redlock.nodes import Nodes
from fencelock.engines.redlock.scripts import LOAD_SCRIPTS
from fencelock.engines.resp.advice import WRONG_SERVER, first_word, rejection
from fencelock.engines.resp.wire import script_missing
from fencelock.io import clock


class Request(NamedTuple):
    """What to send to one node in one write: packed commands, and how many replies they get."""

    node: int
    payload: bytes
    replies: int = 1

    @classmethod
    def of(cls, node: int, commands: list[bytes]) -> Request:
        return cls(node, b"".join(commands), len(commands))


Take = Callable[[int, list[Any] | None], Sequence[Request]]
"""Takes in a node's replies, or None if there are none. Returns what to ask next."""


async def ask(
    nodes: Nodes,
    links: NodeLinks,
    requests: Iterable[Request],
    take: Take,
    timeout: float,
    decided: Callable[[], bool] = lambda: False,
) -> None:
    """Ask until it is decided, or until all nodes have answered.

    A node without a link, or one that needs longer than `timeout`, counts as failed.
    """
    asked: dict[int, Request] = {}
    reloaded: set[int] = set()

    def send(more: Iterable[Request]) -> None:
        for request in more:
            asked[request.node] = request
            links.send(*request)

    def fail(node: int, why: RequestFailed) -> None:
        nodes.fail(links, node, why)
        send(take(node, None))

    links.begin()
    send(requests)
    if len(asked) < len(links.at):
        for node, link in enumerate(links.at):
            if link is None and node not in asked:
                send(take(node, None))
    until = clock.now() + timeout
    while not decided():
        answer = await links.next_answer(until)
        if answer is None:
            late = links.unanswered()
            if not late:
                return
            for node in late:
                fail(node, RequestFailed(f"no answer within {timeout:.3g} s", "unknown"))
            continue
        node, replies = answer
        if isinstance(replies, RequestFailed):
            fail(node, replies)
            continue
        errors = [reply for reply in replies if isinstance(reply, hiredis.ReplyError)]
        if not errors:
            more = take(node, replies)
            if more:
                until = clock.now() + timeout
                send(more)
        elif node not in reloaded and any(script_missing(error) for error in errors):
            # Load all scripts, not only this one: a release is often sent without reading the reply, so
            # nobody would notice that the node does not know `release`.
            reloaded.add(node)
            links.tell(*Request.of(node, LOAD_SCRIPTS))
            links.send(*asked[node])
        else:
            why = rejection(errors[0])
            if first_word(why) in WRONG_SERVER:
                fail(node, why)
            else:
                nodes.all[node].complaint = why
                send(take(node, None))
