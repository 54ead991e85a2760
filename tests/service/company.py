"""What the tests of the service share: clients of all kinds, and replicas with tokens."""

from __future__ import annotations

import json
import secrets
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from fencelock.engines.http.wire import PATH, SUBPROTOCOL
from fencelock.service.tokens import new_token
from tests.servers import HOST
from tests.servers_service import Replica

OWNER = {"host": "h", "pid": 1}


class Reply(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def kind(self) -> str:
        """The last word of a problem's type."""
        return str(self.body["type"]).rpartition(":")[2]


def ticket(name: str, *, ttl: float = 30.0, id: str = "") -> dict[str, Any]:
    return {"name": name, "id": id or secrets.token_hex(16), "ttl": ttl, "owner": OWNER}


def entering(*tickets: dict[str, Any], if_free: bool = False) -> dict[str, Any]:
    return {"tickets": list(tickets), "timeout": 10, "if_free": if_free}


def ask(
    replica: Replica,
    path: str,
    body: object = None,
    *,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    method: str = "",
    headers: Mapping[str, str] | None = None,
    source: str = HOST,
) -> Reply:
    """Ask once, on a connection of its own."""
    connection = (
        HTTPConnection(HOST, replica.port, timeout=30, source_address=(source, 0))
        if tls is None
        else HTTPSConnection(HOST, replica.port, timeout=30, context=tls)
    )
    sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
    text = None if body is None else json.dumps(body)
    try:
        connection.request(method or ("GET" if body is None else "POST"), path, text, sent)
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    is_json = "json" in (answer.getheader("Content-Type") or "")
    return Reply(
        answer.status,
        json.loads(content) if is_json else content.decode(),
        dict(answer.getheaders()),
    )


def token_in(file: Path, name: str, lifetime: float = 3600.0, **rights: list[str]) -> str:
    """A new token in the file. A right is written with a final underscore if it is a word of Python."""
    given = {right.rstrip("_"): patterns for right, patterns in rights.items()}
    return new_token(file, name, given, lifetime)


@contextmanager
def serving(folder: Path, *options: str, engine: str = "memory://") -> Iterator[Replica]:
    with Replica(folder / f"replica-{time.monotonic_ns()}", engine, *options) as replica:
        yield replica


def said(replica: Replica) -> str:
    """What the replica has written to stdout and stderr."""
    return replica.log_file.read_text()


@contextmanager
def raw(replica: Replica, source: str = HOST) -> Iterator[socket.socket]:
    """A plain connection, from any loopback address."""
    with socket.create_connection((HOST, replica.port), 30, (source, 0)) as connection:
        yield connection


def is_cut(connection: socket.socket) -> bool:
    """Whether the other side has ended the connection."""
    connection.settimeout(0.01)
    try:
        return not connection.recv(65_536)
    except TimeoutError:
        return False
    except OSError:
        return True


class LineClient:
    """A line, as simple as possible. Use it as an async context manager."""

    def __init__(self, replica: Replica, token: str = "") -> None:
        self._url = replica.url + PATH
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._seq = 0

    async def __aenter__(self) -> LineClient:
        self.session = aiohttp.ClientSession()
        try:
            self.socket = await self.session.ws_connect(
                self._url, headers=self._headers, protocols=[SUBPROTOCOL]
            )
            self.hello = await self.socket.receive_json()
        except BaseException:
            await self.session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    async def send(self, op: str, **fields: Any) -> int:
        self._seq += 1
        act = {"op": op, "timeout": 10, **fields}
        await self.socket.send_json({"seq": self._seq, "act": act})
        return self._seq

    async def ask(self, op: str, **fields: Any) -> Any:
        """The answer; wake-ups before it are dropped."""
        seq = await self.send(op, **fields)
        while True:
            message = await self.socket.receive_json(timeout=30)
            if message.get("seq") == seq:
                return message["answer"]


class TlsReplica(Replica):
    """A replica that speaks TLS."""

    def ready(self) -> bool:
        try:
            with raw(self):
                return True  # it listens; who it trusts is up to the test
        except OSError:
            return False


class Certificates:
    """A certificate authority in a folder, made with openssl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = str(folder / "ca.pem")
        self._openssl(
            *("req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2"),
            *("-subj", "/CN=authority"),
        )

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def make(self, name: str, subject: str, alternative: str) -> tuple[str, str]:
        """The files of a certificate and its key."""
        certificate, key = str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key")
        self._openssl(
            "req", *_NEW_KEY, "-keyout", key, "-out", f"{name}.csr", "-subj", f"/CN={subject}"
        )
        (self.folder / "extensions").write_text(f"subjectAltName={alternative}")
        self._openssl(
            *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
            *("-out", certificate, "-days", "2", "-extfile", "extensions"),
        )
        return certificate, key

    def server(self, subject: str) -> tuple[str, ...]:
        """The flags of a server with a certificate, always in the same files."""
        certificate, key = self.make("server", subject, f"IP:{HOST}")
        return "--certificate", certificate, "--key", key

    def client(self, *own: str) -> ssl.SSLContext:
        """What a client needs to trust the server, with a certificate of its own if it has one."""
        context = ssl.create_default_context(cafile=self.ca)
        if own:
            context.load_cert_chain(*own)
        return context


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
