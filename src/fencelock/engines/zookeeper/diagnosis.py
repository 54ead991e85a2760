"""What the servers of an ensemble say about themselves: to four-letter words, and to a session at each."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from typing import Any

from fencelock.engines.diagnosis import Clock, Server, is_remote, measure
from fencelock.engines.failure import RequestFailed
from fencelock.engines.zookeeper import requests
from fencelock.engines.zookeeper.batch import gone, rejection, value
from fencelock.engines.zookeeper.nodes import release_signal
from fencelock.engines.zookeeper.queues import Queues
from fencelock.engines.zookeeper.transport import Transport
from fencelock.engines.zookeeper.urls import Settings
from fencelock.io import clock
from fencelock.io.contract import IO

READ = "reading the nodes of locks"
LEADING = ("leader", "standalone")
"""The roles of a server that all transactions go through."""
_CONFIG = "/zookeeper/config"
"""The node in which every server shows who belongs to the ensemble."""


async def describe(settings: Settings, io: IO, timeout: float) -> list[Server]:
    """Examine the servers in the URL, one by one."""
    return [await _describe(settings, host, port, io, timeout) for host, port in settings.hosts]


async def _describe(settings: Settings, host: str, port: int, io: IO, timeout: float) -> Server:
    server = Server(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
        own_clock=False,  # waiters count by their own clocks, and servers by the time that has passed
        remote=is_remote(host),
        encrypted=settings.tls is not None,
    )
    said: dict[str, str] = {}
    refused: dict[str, str] = {}

    async def ask(word: str) -> None:
        answer = await io.call(_answer, host, port, settings.tls, word, timeout)
        if "not in the whitelist" in answer:
            refused[word] = "it is not in 4lw.commands.whitelist"
        elif "not currently serving" in answer:
            said["Mode"] = "not serving"
        else:
            said.update(re.findall(r"^(.+?)(?:: |\t)(.*)$", answer, re.MULTILINE))

    try:
        await ask("srvr")
        if said.get("Mode") not in ("not serving", "read-only"):
            alone = settings._replace(hosts=[(host, port)])
            server = await _with_session(server, alone, io, timeout, said, refused)
            await ask(
                "mntr"
            )  # after the session was opened, which every server has written to its log
    except RequestFailed as error:
        return server._replace(failure=str(error))
    except OSError as error:
        return server._replace(failure=f"no answer to srvr: {error.strerror or error}")
    role = said.get("Mode") or said.get("zk_server_state", "untold")
    return server._replace(role=role, said=said, refused=refused)


async def _with_session(
    server: Server,
    settings: Settings,
    io: IO,
    timeout: float,
    said: dict[str, str],
    refused: dict[str, str],
) -> Server:
    """Examine a server by a session of our own there."""
    transport = Transport(settings, io)
    transport.on_loss, transport.on_event = _nothing, _nothing
    root = settings.root

    async def exchange(*wanted: Any) -> list[Any]:
        return (await transport.exchange(list(wanted), io.now() + timeout)).replies

    async def read() -> None:  # a way to the leader and back, as most requests for locks
        await exchange(requests.sync(root), requests.exists(root))

    try:
        config, node = await exchange(requests.get(_CONFIG), requests.get(root))
        said["session"] = str(transport.session)
        if isinstance(config, Exception):
            refused[_CONFIG] = str(rejection(config))
        else:
            said["config"] = config[0].decode(errors="replace")
        if isinstance(node, Exception) and not gone(node):
            refused[READ] = str(rejection(node))
        return server._replace(round_trips=(await measure(read, io)).round_trips)
    finally:
        await transport.close()


def _nothing(*_: object) -> None:
    pass


def _answer(host: str, port: int, tls: ssl.SSLContext | None, word: str, timeout: float) -> str:
    """The answer to a four-letter word. The server hangs up after it."""
    until = clock.now() + timeout
    link = socket.create_connection((host, port), timeout)
    try:
        if tls is not None:
            link = tls.wrap_socket(link, server_hostname=host)
        link.sendall(word.encode())
        answer = b""
        while True:
            link.settimeout(max(until - clock.now(), 0.001))
            part = link.recv(65_536)
            if not part:
                break
            answer += part
    finally:
        link.close()
    if not answer:
        raise RequestFailed(
            "it hung up: is this its address for clients, with TLS or without it, as the URL says?",
            "not applied",
        )
    return answer.decode(errors="replace")


async def leader_clock(queues: Queues, timeout: float) -> Clock:
    """Compare the leader's clock with ours: it writes the time into each node that is created."""
    until = queues.io.now() + timeout
    path = release_signal(queues.root, f"doctor.{os.urandom(6).hex()}")  # no name has such a node
    create = requests.create(path, b"", queues.acl, requests.EPHEMERAL)
    while True:
        sent, sent_at = queues.io.now(), time.time()
        created, node, _ = await queues.ask(
            until, create, requests.exists(path), requests.delete(path)
        )
        took = queues.io.now() - sent
        if not gone(created):
            break
        await queues.make_root(until)
    value(created)
    theirs = value(node).ctime / 1000
    # It is cut to whole milliseconds.
    low, high = theirs - sent_at - took, theirs + 0.001 - sent_at
    return Clock((low + high) / 2, (high - low) / 2)
