"""What the replicas of a lock service say about their engine, and about themselves."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fencelock.core.errors import FencelockError
from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.diagnosis import Server, is_remote, measure
from fencelock.engines.failure import RequestFailed
from fencelock.engines.http.failures import OTHER_ENGINE
from fencelock.engines.http.link import Link, Node
from fencelock.engines.http.wire import (
    Diagnose,
    Diagnosis,
    Enter,
    Inspect,
    Leave,
    WireTicket,
)
from fencelock.io.contract import IO

_LINES = 4
"""Lines to each address. Behind a load balancer they may end at several replicas."""

_QUESTIONS = 5
"""A service needs as many times as long for an examination as for one request."""

SILENCE = 61.0
"""Seconds for which a line must be able to be silent. Many proxies cut after a minute."""

_TTL = 30.0
"""The ttl of the probe's lock, in seconds. It is released at once."""

_NAME = "fencelock doctor"
"""A name that nobody needs, to ask about."""


async def describe(nodes: Sequence[Node], io: IO, timeout: float, *, probe: bool) -> list[Server]:
    """Each replica that is found behind these addresses."""
    links: dict[str, Link] = {}
    found: list[Server] = []
    try:
        for node in nodes:
            found += await _open(node, links, timeout)
        described: dict[str, Server] = {}
        for replica in links:
            links[replica], described[replica] = await _replica(links[replica], io, timeout)
        if probe:
            seen = await _seen(links, timeout)
            silence = await _silence(links, io, timeout)
            for replica, server in described.items():
                said = {**server.said, **seen[replica], **silence[replica]}
                described[replica] = server._replace(said=said)
        return [*described.values(), *found]
    finally:
        for link in links.values():
            link.close()


async def _open(node: Node, links: dict[str, Link], timeout: float) -> list[Server]:
    """Open lines to an address, and keep one to each replica. Returns what can't be asked.

    They are lines of our own: those of the client have its tickets.
    """
    own = type(node)(node.host, node.port, node.login)
    own.met = node.met
    for _ in range(_LINES):
        try:
            link = await own.connect(timeout)
        except RequestFailed as error:
            if error.code == OTHER_ENGINE:
                return [Server(str(node), "replica", {"other_engine": str(error)})]
            return [Server(str(node), failure=str(error))]
        if links.setdefault(link.replica, link) is not link:
            link.close()
    return []


async def _replica(link: Link, io: IO, timeout: float) -> tuple[Link, Server]:
    """Ask one replica. Returns also the line that is open to it then."""
    node = link.node
    server = Server(
        f"{node} ({link.replica[:6]})",
        "replica",
        remote=is_remote(node.host),
        encrypted=node.login.tls is not None,
    )
    try:
        try:
            server = await _diagnosed(link, server, io, timeout)
        except RequestFailed as error:
            why = str(error)
            if link.broken:  # that is how a service answers what it does not understand
                link = await node.connect(timeout)
                why = f"{why}: the service may be too old"
            server = server._replace(refused={"the diagnosis": why})

        async def look() -> None:
            await _look(link, timeout)

        timing = await measure(look, io)
    except RequestFailed as error:
        return link, server._replace(failure=str(error))
    return link, server._replace(round_trips=timing.round_trips)


async def _diagnosed(link: Link, server: Server, io: IO, timeout: float) -> Server:
    async def ask() -> Diagnosis:
        found = (await link.ask(Diagnose(_QUESTIONS * timeout), _QUESTIONS * timeout)).diagnosis
        assert found is not None
        return found

    async def time() -> float:
        return (await ask()).time

    found = await ask()
    identity = "" if found.report is None else str(found.report["identity"])
    clock = (await measure(time, io)).clock
    return server._replace(said=_said(found), clock=clock, identity=identity)


async def _look(link: Link, timeout: float) -> None:
    """Ask for something that goes to the engine. It takes as long for a client that may not look."""
    try:
        await link.ask(Inspect(_NAME, timeout), timeout)
    except RequestFailed:
        if link.broken:
            raise


def _said(found: Diagnosis) -> dict[str, str]:
    age = {"age": f"{max(0.0, found.time - found.examined_at):.0f}"}
    if found.report is None:
        return {**age, "not_examined": found.detail}
    return {**age, "report": json.dumps(found.report)}


async def _seen(links: Mapping[str, Link], timeout: float) -> dict[str, dict[str, str]]:
    """Take a lock at the first replica, and tell for each whether it sees the same holder."""
    owner = Owner(os.uname().nodename.replace(" ", "-") or "localhost", os.getpid(), "doctor")
    name, id = f"{_NAME} {os.urandom(6).hex()}", os.urandom(16).hex()
    ticket = WireTicket.pack(Ticket(name, id, _TTL, owner))
    first = next(iter(links.values()), None)
    if first is None:
        return {}
    seen: dict[str, dict[str, str]] = {replica: {} for replica in links}
    with suppress(RequestFailed, FencelockError):  # whoever may not lock has seen nothing
        try:
            (standing,) = (await first.ask(Enter([ticket], timeout, True), timeout)).standings or [
                None
            ]
            for replica, link in links.items():
                found = (await link.ask(Inspect(name, timeout), timeout)).seen
                fences = [each.fence for each in found.holders] if found else []
                same = standing is not None and fences == [standing.fence]
                seen[replica] = {"sees_probe": "yes" if same else "no"}
        finally:
            await first.ask(Leave(ticket, timeout), timeout)
    return seen


async def _silence(links: Mapping[str, Link], io: IO, timeout: float) -> dict[str, dict[str, str]]:
    """Say nothing on these lines for a while, and tell for each whether it was cut."""
    await io.event().wait(SILENCE)
    found: dict[str, dict[str, str]] = {}
    for replica, link in links.items():
        try:
            await _look(link, timeout)
            found[replica] = {"silence": "survived"}
        except RequestFailed as error:
            found[replica] = {"silence": f"cut: {error}"}
    return found
