"""What a Redis or Valkey server says about itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hiredis

from fencelock.engines.diagnosis import Server, is_remote, measure
from fencelock.engines.failure import RequestFailed
from fencelock.engines.resp.advice import explained
from fencelock.engines.resp.facts import DATA_QUESTIONS, Question, facts_of
from fencelock.engines.resp.link import Link, Node
from fencelock.engines.resp.packing import Command, pack
from fencelock.engines.resp.wire import error_text
from fencelock.io.contract import IO

TIME: Command = ("TIME",)
PING: Command = ("PING",)


async def describe(
    node: Node,
    io: IO,
    timeout: float,
    *,
    role: str = "",
    serves: bool = True,
    questions: Sequence[Question] = DATA_QUESTIONS,
    time: Command = TIME,
) -> Server:
    """Ask one server these questions, and compare its clock with ours. `time` is TIME, or else PING."""
    server = Server(
        str(node),
        role,
        serves=serves,
        own_clock=time is TIME,
        remote=is_remote(node.host),
        encrypted=node.login.tls is not None,
    )
    try:
        link = await node.take(timeout)
        try:
            commands = [command for _, command in questions]
            replies = await link.ask(pack(commands), len(commands), timeout)
            timing = await measure(lambda: _time(link, time, timeout), io)
        finally:
            node.give(link)
    except RequestFailed as error:
        return server._replace(failure=explained(error))
    said: dict[str, str] = {}
    refused: dict[str, str] = {}
    for (question, _), reply in zip(questions, replies, strict=True):
        if isinstance(reply, hiredis.ReplyError):
            refused[question] = error_text(reply)
        else:
            said |= _facts(reply)
    return server._replace(
        said=said,
        refused=refused,
        round_trips=timing.round_trips,
        clock=timing.clock,
        identity=f"redis {said['run_id']} {node.login.database}" if "run_id" in said else "",
    )


async def _time(link: Link, command: Command, timeout: float) -> float | None:
    (reply,) = await link.ask(pack([command]), 1, timeout)
    if command is not TIME or isinstance(reply, hiredis.ReplyError):
        return None  # an error takes as long as an answer
    seconds, microseconds = map(int, reply)
    return seconds + microseconds / 1e6


def _facts(reply: Any) -> dict[str, str]:
    """A reply as a dict: lines as of INFO, or a map as of CONFIG GET."""
    if isinstance(reply, dict):
        return {_text(key): _text(value) for key, value in reply.items()}
    if isinstance(reply, list):  # a map of a server that does not use RESP3 for it
        return {
            _text(key): _text(value) for key, value in zip(reply[::2], reply[1::2], strict=True)
        }
    return facts_of(reply)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
