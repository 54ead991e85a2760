"""The audit log says who did what. Nothing that a replica writes or answers contains a secret."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from fencelock.service import audit as module
from fencelock.service.audit import Audit
from fencelock.service.principals import Principal
from tests.servers_service import Replica
from tests.service.company import LineClient, ask, entering, said, serving, ticket, token_in
from tests.waiting import eventually, soon

WHO = Principal("ann", address="192.0.2.1", credential="token 1")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def test_the_life_of_a_lock(tmp_path: Path) -> None:
    file, path = tmp_path / "tokens.toml", tmp_path / "audit.log"
    ann, bob = token_in(file, "ann", lock=["*"]), token_in(file, "bob", admin=["*"])
    first, second, third = (ticket("x") for _ in range(3))
    brief = ticket("brief", ttl=0.2)
    replies: list[Any] = []
    with serving(tmp_path, "--tokens", str(file), "--audit", str(path)) as replica:
        async with LineClient(replica, ann) as line, LineClient(replica, bob) as other:
            replies += [line.hello, await line.ask("enter", **entering(first))]
            replies.append(await other.ask("enter", **entering(second)))
            replies.append(await line.ask("leave", ticket=first))
            wake = await other.socket.receive_json(timeout=30)
            assert wake["standing"]["place"] == 2
            replies.append(await line.ask("evict", name="x"))  # ann may not
            replies.append(await other.ask("evict", name="x"))
            replies.append(await other.ask("renew", tickets=[second]))
            replies.append(await other.ask("inspect", name="x", limit=10))
            await line.ask("enter", **entering(third))
            await line.ask("enter", **entering(brief))
            replies.append(await other.ask("names"))
        malformed = {"tickets": [{"id": first["id"]}], "timeout": 5}
        replies.append(ask(replica, "/v1/enter", malformed, token=ann))
        replies.append(ask(replica, "/v1/info", token=ann + "x"))
        await soon(
            lambda: {"lapsed", "refused"} <= {each["event"] for each in lines(path)}, "all events"
        )
        everything = said(replica) + path.read_text()
    events = [(each["event"], each.get("principal"), each.get("name")) for each in lines(path)]
    expected = [
        ("granted", "ann", "x"),
        ("waiting", "bob", "x"),
        ("released", "ann", "x"),
        ("granted", "bob", "x"),
        ("refused", "ann", "x"),
        ("broke", "bob", "x"),
        ("lost", "bob", "x"),
        ("granted", "ann", "x"),
        ("granted", "ann", "brief"),
    ]
    assert sorted(events[:9]) == sorted(expected)
    assert ("lapsed", "ann", "brief") in events
    assert {each["address"] for each in lines(path)} == {"127.0.0.1"}
    fences = {
        each["event"]: each.get("fence") for each in lines(path) if each.get("principal") == "bob"
    }
    assert fences["broke"] == fences["lost"] == fences["granted"]
    told = everything + str(replies)
    for secret in (
        ann,
        bob,
        ann[17:],
        bob[17:],
        *(each["id"] for each in (first, second, third, brief)),
    ):
        assert secret not in told


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Replica]:
    with serving(tmp_path, "--audit", "/dev/full") as replica:
        yield replica


def test_a_full_disk_does_not_stop_locks(full: Replica) -> None:
    for number in range(3):
        assert ask(full, "/v1/enter", entering(ticket(f"n{number}"))).status == 200
        eventually(lambda: "the audit log can't be written" in said(full), "the log to say it")
    assert said(full).count("can't be written") == 1


async def test_lines_that_wait_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    audit = Audit(str(path))
    try:
        with mock.patch.object(module, "_MOST", 100):
            for _ in range(300):
                audit.note("granted", WHO, "x" * 500, "1")
        assert audit.dropped == 200
    finally:
        os.close(reader)
        await audit.close()


async def test_a_crowd_of_refusals_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    audit = Audit(str(path))
    for _ in range(1000):
        audit.refused(WHO, "limited", None)
    audit.refused(WHO, "forbidden", "x")
    await audit.close()
    assert {each["reason"]: each.get("count", 1) for each in lines(path)} == {
        "limited": 1000,
        "forbidden": 1,
    }
