"""SIGTERM drains, a second signal ends at once, SIGHUP reads files again."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import aiohttp
import pytest

from tests.servers import HOST
from tests.servers_service import Replica
from tests.service.company import (
    Certificates,
    LineClient,
    TlsReplica,
    ask,
    entering,
    raw,
    said,
    serving,
    ticket,
    token_in,
)
from tests.waiting import eventually, soon


def _ended(replica: Replica) -> int | None:
    process = replica._process
    assert process is not None
    return process.poll()


async def test_a_drain_ends_waits_and_lets_requests_finish(tmp_path: Path) -> None:
    with serving(tmp_path, "--body-timeout", "30") as replica:
        holder, waiter, other = (ticket("x") for _ in range(3))
        async with LineClient(replica) as line, aiohttp.ClientSession() as session:
            await line.ask("enter", **entering(holder))
            await line.ask("enter", **entering(waiter))
            await line.ask("enter", **entering(other))
            body = {"ticket": other, "timeout": 60}
            parked = asyncio.create_task(_post(session, f"{replica.url}/v1/park", body))
            # A request under way: its body is not complete yet.
            with raw(replica) as slow, raw(replica) as late:
                text = b'{"name":"x","timeout":5}'
                slow.sendall(
                    b"POST /v1/inspect HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"
                    % len(text)
                    + text[:5]
                )
                await asyncio.to_thread(ask, replica, "/livez")
                # The request takes the wait over from the line, which hears of it.
                woken = await line.socket.receive_json(timeout=30)
                assert (woken["kind"], woken["id"]) == ("Wake", other["id"])
                replica.tell(signal.SIGTERM)
                closed = await line.socket.receive(timeout=30)
                assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1001)
                assert await parked == (200, {"standings": [None]})
                late.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
                late.settimeout(30)
                answer = await asyncio.to_thread(late.recv, 65_536)
                assert b" 503 " in answer.partition(b"\r\n")[0]
                assert b"connection: close" in answer.lower()
                assert _ended(replica) is None
                slow.sendall(text[5:])
                slow.settimeout(30)
                assert (
                    b" 200 " in (await asyncio.to_thread(slow.recv, 65_536)).partition(b"\r\n")[0]
                )
            await soon(lambda: _ended(replica) is not None, "the replica to end")
            assert _ended(replica) == 0


async def _post(session: aiohttp.ClientSession, url: str, body: object) -> tuple[int, object]:
    async with session.post(url, json=body) as answer:
        return answer.status, await answer.json()


async def test_while_it_lingers_new_lines_are_sent_elsewhere(tmp_path: Path) -> None:
    with serving(tmp_path, "--linger", "60") as replica:
        replica.tell(signal.SIGTERM)
        await soon(lambda: not replica.ready(), "the replica to say that it is not ready")
        refused = await asyncio.to_thread(ask, replica, "/v1/line")
        assert (refused.status, refused.kind) == (503, "draining")
        assert refused.headers["Retry-After"] == "1"
        entered = await asyncio.to_thread(ask, replica, "/v1/enter", entering(ticket("x")))
        assert entered.status == 200  # requests are still answered
        replica.tell(signal.SIGTERM)
        await soon(lambda: _ended(replica) is not None, "the replica to end")
        assert _ended(replica) == 128 + signal.SIGTERM


def test_a_drain_is_bounded(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--drain", "0.5", "--body-timeout", "600") as replica,
        raw(replica) as slow,
    ):
        slow.sendall(b"POST /v1/names HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n{")
        assert ask(replica, "/livez").status == 200
        replica.tell(signal.SIGINT)
        eventually(lambda: _ended(replica) is not None, "the replica to end")
        assert _ended(replica) == 0


def test_certificates_have_rights_and_are_read_again(tmp_path: Path) -> None:
    made = Certificates(tmp_path)
    file = tmp_path / "tokens.toml"
    token = token_in(file, "by-token", lock=["*"])
    with file.open("a") as more:
        more.write('[certificates."CN=worker"]\nrights = { lock = ["job:*"] }\n')
        more.write(
            '[certificates."URI:spiffe://x/reader"]\nname = "r"\nrights = { read = ["*"] }\n'
        )
    options = (*made.server("first"), "--client-ca", made.ca, "--tokens", str(file))
    audit = tmp_path / "audit.log"
    with TlsReplica(tmp_path / "tls", "memory://", *options, "--audit", str(audit)) as replica:
        worker = made.client(*made.make("worker", "worker", "DNS:w"))
        reader = made.client(*made.make("reader", "other", "URI:spiffe://x/reader"))
        stranger = made.client(*made.make("stranger", "stranger", "DNS:s"))
        cells = [
            (worker, "job:1", 200, 403),
            (worker, "order:1", 403, 403),
            (reader, "job:1", 403, 200),
            (stranger, "job:1", 401, 401),
            (made.client(), "job:1", 401, 401),
        ]
        for tls, name, locks, reads in cells:
            assert ask(replica, "/v1/enter", entering(ticket(name)), tls=tls).status == locks
            look = {"name": name, "timeout": 5}
            assert ask(replica, "/v1/inspect", look, tls=tls).status == reads
        assert (
            ask(replica, "/v1/enter", entering(ticket("z")), tls=made.client(), token=token).status
            == 200
        )
        foreign = Certificates(_folder(tmp_path / "foreign"))
        unknown = made.client(*foreign.make("worker", "worker", "DNS:w"))
        with pytest.raises(OSError, match=r"alert|reset|closed|EOF|eof"):
            ask(replica, "/v1/info", tls=unknown)
        eventually(lambda: "certificate CN=worker" in audit.read_text(), "the audit log")

        assert _subject(replica, made) == "first"
        made.server("second")
        replica.tell(signal.SIGHUP)
        eventually(lambda: _subject(replica, made) == "second", "the new certificate")
        (tmp_path / "server.key").write_text("broken")
        replica.tell(signal.SIGHUP)
        eventually(lambda: "the old certificates stay in use" in said(replica), "the reason")
        assert _subject(replica, made) == "second"


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _subject(replica: Replica, made: Certificates) -> str:
    with raw(replica) as plain, made.client().wrap_socket(plain, server_hostname=HOST) as tls:
        found = tls.getpeercert()
        assert found is not None
        return str(dict(part[0] for part in found["subject"])["commonName"])  # type: ignore[misc]


def test_the_audit_log_is_reopened(tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    with serving(tmp_path, "--audit", str(audit)) as replica:
        ask(replica, "/v1/enter", entering(ticket("a")))
        eventually(lambda: '"name":"a"' in audit.read_text(), "the first line")
        os.rename(audit, tmp_path / "old.log")
        replica.tell(signal.SIGHUP)
        eventually(audit.exists, "the new file")
        ask(replica, "/v1/enter", entering(ticket("b")))
        eventually(lambda: '"name":"b"' in audit.read_text(), "the next line")


def test_a_unix_socket_and_ipv6(tmp_path: Path) -> None:
    path = tmp_path / "socket"

    class Both(Replica):
        def command(self) -> list[str]:
            """As always, and at two more places: the last `--listen` counts."""
            return [
                *super().command(),
                "--listen",
                f"{HOST}:{self.port},[::1]:{self.port},unix:{path}",
            ]

    with Both(tmp_path / "both", "memory://") as replica:
        for family, where in (
            (socket.AF_INET6, ("::1", replica.port)),
            (socket.AF_UNIX, str(path)),
        ):
            with socket.socket(family) as connection:
                connection.settimeout(30)
                connection.connect(where)
                connection.sendall(b"GET /v1/info HTTP/1.1\r\nHost: [::1]\r\n\r\n")
                assert b" 200 " in connection.recv(65_536).partition(b"\r\n")[0]
