"""The door of a replica: accepts connections, counts them, and cuts those whose clients are too slow.

aiohttp limits none of this by itself. So connections are accepted here, and each is an aiohttp protocol
with three timers: for the first request, for the TLS hello (in the event loop), and for unread answers.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

from fencelock.engines.http.wire import encode
from fencelock.service.addresses import Address, client_of, network_of
from fencelock.service.problems import problem
from fencelock.service.settings import Settings

log = logging.getLogger("fencelock.service")

_SPARE_FILES = 200
"""Files that a replica needs besides those of clients: the engine's connections, logs."""


class Connection(web.RequestHandler):
    """One connection of a client."""

    __slots__ = ("_first", "_flow", "_leave", "_settings", "_stuck", "begun")

    def __init__(self, server: web.Server, settings: Settings, leave: Callable[[], None]) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type] # aiohttp takes None
            keepalive_timeout=settings.idle_timeout,
            lingering_time=settings.body_timeout,
            auto_decompress=False,
        )
        self.begun = False
        """Whether the headers of a request have arrived."""
        self._settings = settings
        self._leave = leave
        self._first: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._flow: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        timeout = self._settings.header_timeout
        self._first = asyncio.get_running_loop().call_later(timeout, self._cut_silent)

    def connection_lost(self, error: BaseException | None) -> None:
        self._leave()
        for timer in (self._first, self._stuck):
            if timer is not None:
                timer.cancel()
        self._flows()
        super().connection_lost(error)

    def _cut_silent(self) -> None:
        if not self.begun:
            self._cut()

    def _cut(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # --- clients that do not read: the transport calls these above and below 64 kB of unsent data

    def pause_writing(self) -> None:
        super().pause_writing()
        loop = asyncio.get_running_loop()
        self._flow = loop.create_future()
        self._stuck = loop.call_later(self._settings.send_timeout, self._cut)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
        self._flows()

    def _flows(self) -> None:
        if self._flow is not None:
            self._flow.set_result(None)
            self._flow = None

    @property
    def is_stuck(self) -> bool:
        """Whether the client has not read what was sent."""
        return self._flow is not None

    async def flowing(self) -> None:
        """Wait until the client has read what was sent, or is gone."""
        while self._flow is not None:
            await asyncio.wait([self._flow])


class Door:
    """Accepts connections within the limits."""

    def __init__(self, server: web.Server, settings: Settings, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        """For new connections. It is replaced when certificates are read again."""
        self.count = 0
        self.refused = 0
        """Connections that were one too many."""
        self._server = server
        self._settings = settings
        self._most = min(settings.connections, _raise_file_limit() - _SPARE_FILES)
        if self._most < settings.connections:
            log.warning("connections are limited to %d by this process's open files", self._most)
        self._of_network: Counter[str] = Counter()
        self._sockets: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def open(self, address: Address) -> str:
        """Listen. Returns the address, with the port that was chosen if it was 0."""
        sockets = address.open()
        self._sockets += sockets
        for each in sockets:
            self._start(self._accept(each))
        if address.path:
            return str(address)
        return str(Address(address.host, sockets[0].getsockname()[1]))

    async def close(self) -> None:
        """Accept nothing more. The connections stay."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for each in self._sockets:
            each.close()

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, server: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, peername = await loop.sock_accept(server)
            except OSError as error:  # for example, no file is left
                log.error("a connection can't be accepted: %s", error.strerror)
                await asyncio.sleep(0.5)
                continue
            network = network_of(client_of(peername))
            if self._is_full(network):
                self.refused += 1
                _turn_away(client, plain=self.tls is None)
            else:
                self.count += 1
                self._of_network[network] += 1
                self._start(self._welcome(client, network))

    def _is_full(self, network: str) -> bool:
        if self.count >= self._most:
            return True
        return self._of_network[network] >= self._settings.connections_per_address

    async def _welcome(self, client: socket.socket, network: str) -> None:
        """Hand a connection over to aiohttp, after the TLS handshake."""
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self.count -= 1
                self._of_network[network] -= 1
                if not self._of_network[network]:
                    del self._of_network[network]

        timeout = self._settings.header_timeout if self.tls else None
        try:
            client.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._server, self._settings, leave),
                client,
                ssl=self.tls,
                ssl_handshake_timeout=timeout,
            )
        except (OSError, TimeoutError) as error:  # no hello, no TLS, or a bad certificate
            leave()
            client.close()
            log.debug("a connection failed before its first request: %s", error)
        except BaseException:
            leave()
            client.close()
            raise


_TURNED_AWAY = encode(problem("overloaded", "too many connections", retry_after=1.0))


def _turn_away(client: socket.socket, plain: bool) -> None:
    """Say why, if that costs nothing: a stranger in TLS hears nothing."""
    with suppress(OSError):
        if plain:
            client.setblocking(False)
            client.send(
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/problem+json\r\n"
                b"Retry-After: 1\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                % (len(_TURNED_AWAY), _TURNED_AWAY)
            )
            client.shutdown(socket.SHUT_WR)
    client.close()


def _raise_file_limit() -> int:
    """Each connection is an open file. Allow as many as the system does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            return hard
    return soft


def make_tls(settings: Settings) -> ssl.SSLContext | None:
    """The TLS of the settings. Raises `ValueError` if a file is missing or broken."""
    if not settings.certificate:
        if settings.key or settings.client_ca:
            raise ValueError("key and client_ca need a certificate: set `certificate`")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # it costs the server more than the client
    context.set_alpn_protocols(["http/1.1"])
    try:
        # Without a password, OpenSSL would ask for one at the terminal.
        context.load_cert_chain(settings.certificate, settings.key or None, password="")
    except (OSError, ValueError) as error:
        raise ValueError(f"the certificate or its key can't be used: {_said(error)}") from error
    if settings.client_ca:
        try:
            context.load_verify_locations(settings.client_ca)
        except (OSError, ValueError) as error:
            raise ValueError(f"client_ca can't be used: {_said(error)}") from error
        context.verify_mode = ssl.CERT_OPTIONAL  # those without a certificate may have a token
    return context


def _said(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
