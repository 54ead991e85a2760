"""Where a replica listens, and how clients are told apart by their address."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import stat
from typing import Any, NamedTuple


class Address(NamedTuple):
    """A place to listen: a host and a port, or the path of a unix socket."""

    host: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it. Asks the resolver about a name."""
        if self.path:
            return True
        return all(ipaddress.ip_address(each[4][0]).is_loopback for each in self._resolved())

    def _resolved(self) -> list[Any]:
        try:
            return socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
        except (OSError, UnicodeError) as error:
            raise ValueError(f"listen: the host {self.host!r} is unknown: {error}") from error

    def open(self) -> list[socket.socket]:
        """Listen. A name may stand for several addresses."""
        if self.path:
            return [_open_unix(self.path)]
        opened: list[socket.socket] = []
        try:
            for family, kind, protocol, _, where in dict.fromkeys(map(tuple, self._resolved())):
                server = socket.socket(family, kind, protocol)
                opened.append(server)
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:  # 0.0.0.0 and :: can then be used together
                    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                server.bind(where)
                server.listen(4096)
                server.setblocking(False)
        except OSError:
            for server in opened:
                server.close()
            raise
        return opened


def _open_unix(path: str) -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.stat(path).st_mode):  # left behind by a replica that was killed
            os.unlink(path)
    server = socket.socket(socket.AF_UNIX)
    try:
        server.bind(path)
        server.listen(4096)
        server.setblocking(False)
    except OSError:
        server.close()
        raise
    return server


def parse_address(text: str) -> Address:
    """HOST:PORT, [IPV6]:PORT or unix:PATH. Raises `ValueError`."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path:
            raise ValueError(f"listen: {text!r} has no path")
        return Address("", 0, path)
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    odd = (":" in host) != bracketed or "[" in host or "]" in host
    if not colon or not host or odd or not port.isascii():
        raise ValueError(f"listen: {text!r} is not HOST:PORT, [IPV6]:PORT or unix:PATH")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise ValueError(f"listen: {port!r} is not a port")
    return Address(host, int(port))


def client_of(peername: Any) -> str:
    """The address of a client, for people and for limits; "unix" at the other end of a unix socket."""
    return str(peername[0]) if isinstance(peername, tuple) else "unix"


def network_of(address: str) -> str:
    """What limits per address count: for IPv6 the network, because a client has 2^64 addresses there."""
    if ":" not in address:
        return address
    plain = ipaddress.ip_address(address.partition("%")[0])
    assert isinstance(plain, ipaddress.IPv6Address)
    if plain.ipv4_mapped:
        return str(plain.ipv4_mapped)
    return str(ipaddress.ip_network((plain, 64), strict=False))
