"""Each check of a lock service on real replicas that have the fault, and on some that have not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Union, get_args

import aiohttp
import msgspec
import pytest

import fencelock
from fencelock.doctor import Report, http
from fencelock.doctor.checks import Rule, Setup
from fencelock.engines.diagnosis import Clock, Server
from fencelock.engines.http import diagnosis, wire
from fencelock.engines.http.engine import HttpEngine
from fencelock.service import line
from fencelock.service.app import Service
from fencelock.service.settings import Settings
from fencelock.service.tokens import read_keys
from tests.doctor.examining import bad, check, examined, examined_async, with_status
from tests.servers import HOST, RedisFactory, free_port
from tests.servers_proxies import Haproxy
from tests.service.company import token_in
from tests.service.in_process import memory, serving
from tests.waiting import soon

pytestmark = pytest.mark.usefixtures("few_round_trips")

Start = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Start a replica in front of an engine. Returns its URL."""
    async with AsyncExitStack() as running:

        async def started(engine: str | Settings, keys: Any = None) -> str:
            settings = engine if isinstance(engine, Settings) else Settings(engine=engine)
            return await running.enter_async_context(serving(Service(settings, keys)))

        yield started


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


def both(one: str, other: str) -> str:
    return f"{one},{other.removeprefix('http://')}"


def _waits(url: str, name: str) -> bool:
    with fencelock.Client(url) as client:
        return client.inspect(name).waiting == 1


async def examine(url: str, **options: Any) -> Report:
    """The replicas run in this event loop."""
    return await asyncio.to_thread(examined, url, **options)


@pytest.mark.parametrize("face", [examined, examined_async])
async def test_replicas_without_a_fault(start: Start, file: str, face: Any) -> None:
    await examine(file, probe=True)  # before its first use a file has no identity
    url = both(await start(file), await start(file))
    report: Report = await asyncio.to_thread(face, url)
    assert (report.verdict, report.promise) == ("correctness", "correctness")
    assert with_status(report, "bad", "unknown", "advice") == {"silence"}
    assert check(report, "one-engine").detail == "2 replicas have the same one"
    (part,) = report.parts
    assert (part.engine, part.verdict, part.identity) == (
        "sqlite",
        "correctness",
        report.parts[0].identity,
    )
    assert part.identity == (await examine(file)).identity
    assert len(report.clocks) == 2


async def test_a_fault_of_the_engine(start: Start, redis_server: RedisFactory) -> None:
    server = redis_server(maxmemory="1gb", maxmemory_policy="allkeys-lru", appendonly="yes")
    report = await examine(await start(server.url))
    assert bad(report) == set()
    assert (report.verdict, report.next) == ("not safe", "for efficiency mend: eviction")
    (part,) = report.parts
    assert bad(part) == {"eviction"}
    assert report.accepting(["eviction"]).verdict == "efficiency"
    assert report.accepting(["clock"]).verdict == "not safe"
    with pytest.raises(fencelock.UnsafeEngine, match="maxmemory-policy noeviction"):
        report.require("efficiency")


async def test_replicas_with_different_engines(start: Start, file: str, redis_url: str) -> None:
    first, second = await start(f"{redis_url}/0"), await start(f"{redis_url}/1")
    report = await examine(both(first, second))
    assert (bad(report), report.verdict) == ({"one-engine"}, "not safe")
    assert check(report, "one-engine").detail == "2 engines behind 2 replicas"
    third = await start(file)
    report = await examine(both(first, third))
    assert "another engine" in check(report, "one-engine").detail
    assert report.verdict == "not safe"


async def test_engines_that_do_not_tell_which_they_are(
    start: Start, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "SILENCE", 0.0)
    url = both(await start(memory()), await start(memory()))
    found = check(await examine(url), "one-engine")
    assert (found.status, found.leaves) == ("unknown", "not safe")
    assert "--probe" in found.mend
    report = await examine(url, probe=True)
    assert (bad(report), report.verdict) == ({"one-engine"}, "not safe")
    assert "is not seen by" in check(report, "one-engine").detail
    report = await examine(both(await start(file), await start(file)), probe=True)
    assert check(report, "one-engine").detail == "a lock is seen by 2 of 2 replicas"
    assert with_status(report, "bad", "unknown") == set()


async def test_behind_a_load_balancer_that_cuts_silent_lines(
    start: Start, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosis, "SILENCE", 5.0)  # a stall is shorter than the difference
    ports = [int((await start(redis_url)).rpartition(":")[2]) for _ in range(2)]
    short = {"timeout tunnel 1h": "timeout tunnel 1s"}
    balancer = Haproxy(tmp_path / "haproxy", ports, short)
    await asyncio.to_thread(balancer.start)
    try:
        report = await examine(balancer.url, probe=True)
    finally:
        balancer.kill()
    assert len(set(check(report, "silence").servers)) == 2
    assert bad(report) == {"silence"}
    assert check(report, "one-engine").detail == "a lock is seen by 2 of 2 replicas"
    assert "cut" in check(report, "silence").detail


async def test_a_token_without_the_right(
    start: Start, tmp_path: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    tokens = tmp_path / "tokens.toml"
    weak = token_in(tokens, "weak", lock=["*"], admin=["order:*"])
    strong = token_in(tokens, "strong", admin=["*"])
    url = await start(file, read_keys(tokens))
    report = await examine(url.replace("//", f"//{strong}@"))
    assert with_status(report, "bad", "unknown") == {"silence"}
    url = url.replace("//", f"//{weak}@")
    report = await examine(url)
    assert with_status(report, "unknown") == {"examination", "silence", "clock"}
    assert "lacks the right 'admin' for all names" in check(report, "examination").detail
    assert [each.id for each in report.unknown("efficiency")] == ["examination"]
    # A program goes on, and its log says what it does not know.
    caplog.set_level(logging.WARNING, "fencelock")
    async with fencelock.AsyncClient(url, purpose="correctness", diagnose=True) as client:
        await (await client.lock("x", guard=None).acquire()).release()
    assert "lacks the right 'admin'" in caplog.text


async def test_a_service_is_examined_once_a_minute(start: Start, tmp_path: Path, file: str) -> None:
    tokens = tmp_path / "tokens.toml"
    weak, strong = token_in(tokens, "weak", lock=["*"]), token_in(tokens, "strong", admin=["*"])
    url = await start(file, read_keys(tokens))
    async with aiohttp.ClientSession() as session:

        async def ask(token: str) -> tuple[int, Any]:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(f"{url}/v1/diagnosis", headers=headers) as answer:
                return answer.status, await answer.json()

        (_, first), (_, second) = await asyncio.gather(ask(strong), ask(strong))
        assert first["report"]["verdict"] == "correctness"
        assert (
            first["examined_at"] == second["examined_at"] == (await ask(strong))[1]["examined_at"]
        )
        assert (await ask(weak))[0] == 403

        # The live page shows the verdict to everybody that may look at it.
        headers = {"Authorization": f"Bearer {weak}"}
        async with session.get(f"{url}/v1/live", headers=headers) as stream:
            assert await stream.content.readline() == b"event: hello\n"
            hello = json.loads((await stream.content.readline()).removeprefix(b"data: "))
        assert hello["verdict"]["level"] == "correctness"
        assert hello["verdict"]["text"].startswith("as long as ")


async def test_an_engine_that_is_away(start: Start) -> None:
    report = await examine(await start(f"redis://{HOST}:{free_port()}"))
    assert (bad(report), report.verdict) == ({"examination"}, "not safe")
    assert "is the server running there" in check(report, "examination").detail


async def test_a_service_of_an_older_version(
    start: Start, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = tuple(act for act in get_args(wire.AnyAct) if act is not wire.Diagnose)
    request = msgspec.defstruct("Request", [("seq", int), ("act", Union[known])])  # noqa: UP007
    monkeypatch.setattr(line, "decode_request", msgspec.json.Decoder(request).decode)
    for face in (examined, examined_async):
        report = await asyncio.to_thread(face, await start(file))
        assert with_status(report, "unknown") == {"examination", "silence", "clock"}
        assert "too old" in check(report, "examination").detail
        assert report.latency is not None


async def test_the_lines_of_the_client_stay(start: Start, file: str) -> None:
    """An examination has lines of its own: those of the client have its tickets."""
    url = await start(file)
    async with fencelock.AsyncClient(url) as client:
        held = await client.lock("x").acquire()
        waiting = asyncio.create_task(client.lock("x").acquire(timeout=30))
        await soon(lambda: _waits(file, "x"), "the waiter")
        node = client._context.bare_engine._nodes[0]  # type: ignore[attr-defined]
        before = node.ready()
        await client.diagnose()
        assert node.ready() is before
        await held.release()
        await (await waiting).release()


@pytest.mark.parametrize(
    ("offset", "status"), [(0.4, "ok"), (-3.0, "advice"), (1.2, "ok"), (None, "unknown")]
)
def test_the_clock_of_a_replica(offset: float | None, status: str) -> None:
    clock = None if offset is None else Clock(offset, 0.3)
    setup = Setup("http", HttpEngine.traits, [Server("a", "replica", clock=clock)], 30.0)
    rule: Rule = http.clock
    found = rule.check(setup)
    assert found is not None
    assert found.status == status


def test_nobody_answers() -> None:
    with pytest.raises(fencelock.EngineError, match="Connection refused"):
        examined(f"http://{HOST}:{free_port()}")
