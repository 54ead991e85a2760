"""`/v1/live`: what an open page is told, and what others must not be told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import fencelock
from fencelock.core.deadlock import Stamp
from fencelock.core.errors import EngineError
from fencelock.core.ticket import Owner, Ticket
from fencelock.engines.http.wire import WireTicket
from fencelock.service.app import Service
from fencelock.service.live import stream
from fencelock.service.settings import Settings
from fencelock.service.tokens import Keys, read_keys
from tests.service.company import token_in
from tests.service.in_process import memory, serving
from tests.service.raw_line import raw_line, ticket
from tests.waiting import PATIENCE, soon


class Page:
    """An open page without a browser."""

    def __init__(self, session: aiohttp.ClientSession, url: str, answer: aiohttp.ClientResponse):
        self.session, self.url, self.answer = session, url, answer
        self.rows: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        self.hello: dict[str, Any] = {}
        self.cursor = ""
        self.words: list[str] = []
        self.resets = 0

    async def read(self) -> bool:
        """Take in the next event. False at the end of the stream."""
        word, data = "", dict[str, Any]()
        while line := await asyncio.wait_for(self.answer.content.readline(), PATIENCE):
            field, _, value = line.decode().rstrip("\n").partition(": ")
            if not field:
                break
            word, data = (value, data) if field == "event" else (word, json.loads(value))
        else:
            return False
        self.words.append(word)
        if word == "hello":
            self.hello = data
        elif word == "state":
            self.state = data
        elif word == "rows":
            self.resets += data.get("reset", False)
            if data.get("reset"):
                self.rows = {}
            self.rows |= {row["name"]: row for row in data.get("rows", ())}
            for name in data.get("gone", ()):
                self.rows.pop(name, None)
            self.cursor = data["cursor"]
        return True

    async def until(self, condition: Any, what: str) -> None:
        """Read until the page shows something."""
        async with asyncio.timeout(PATIENCE):
            while not condition(self):
                assert await self.read(), f"the stream has ended before {what}"

    async def show(self, *names: str, opened: str | None = None) -> int:
        body = {"stream": self.hello["stream"], "names": names, "opened": opened}
        async with self.session.post(f"{self.url}/v1/live/visible", json=body) as answer:
            return answer.status

    async def get(self, path: str) -> Any:
        async with self.session.get(f"{self.url}/v1/live/{path}") as answer:
            return await answer.json(content_type=None)


@asynccontextmanager
async def opened(url: str, token: str = "", since: str = "") -> AsyncIterator[Page]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.get(f"{url}/v1/live", params={"since": since}) as answer,
    ):
        assert answer.status == 200
        yield Page(session, url, answer)


async def test_a_page_follows_a_lock() -> None:
    async with serving(Service(memory())) as url, opened(url) as page, raw_line(url) as line:
        holder, waiter = ticket("order:1"), ticket("order:1")
        fence = (await line.enter(holder)).fence
        await page.until(lambda page: "order:1" in page.rows, "a row")
        assert page.words[0] == "hello"
        assert page.hello["rights"]["break"] == ["*"]
        (shown,) = page.rows["order:1"]["holders"]
        assert shown["fence"] == fence
        assert shown["owner"] == {"host": "host", "pid": 1, "label": "tests"}
        await line.enter(waiter)
        await page.until(lambda page: page.rows["order:1"].get("waiting"), "the waiter")
        await line.leave(holder)
        await page.until(
            lambda page: page.rows["order:1"]["holders"][0]["fence"] > fence, "the next holder"
        )
        await line.leave(waiter)
        await page.until(lambda page: not page.rows, "the end")
        assert holder.id not in json.dumps(page.rows)


async def test_locks_that_do_not_come_through_this_replica_are_seen_too(tmp_path: Path) -> None:
    engine = f"sqlite:///{tmp_path}/locks.db"
    async with serving(Service(Settings(engine=engine))) as url, opened(url) as page:
        async with fencelock.AsyncClient(engine) as client, client.lock("direct"):
            await page.until(lambda page: "direct" in page.rows, "a row")
        await page.until(lambda page: not page.rows, "the end")


async def test_a_page_that_comes_back_hears_only_what_has_changed() -> None:
    async with serving(Service(memory())) as url, raw_line(url) as line, opened(url) as stays:
        first, second = ticket("a"), ticket("b")
        await line.enter(first)
        await line.enter(second)
        async with opened(url) as page:
            await page.until(lambda page: len(page.rows) == 2, "both rows")
        await line.leave(first)
        await line.enter(ticket("c"))
        await stays.until(lambda page: page.rows.keys() == {"b", "c"}, "the change")
        async with opened(url, since=page.cursor) as again:
            again.rows = page.rows
            await again.until(lambda page: page.rows.keys() == {"b", "c"}, "the change")
            assert not again.resets
        async with opened(url, since="another-7") as again:
            await again.until(lambda page: page.rows.keys() == {"b", "c"}, "the rows")
            assert again.resets == 1


async def test_who_may_read_what(tmp_path: Path) -> None:
    file = tmp_path / "tokens.toml"
    worker = token_in(file, "worker", lock=["*"])
    reader = token_in(file, "reader", read=["order:*"])
    service = Service(memory(tokens=str(file)), read_keys(file))
    async with serving(service) as url:
        asked: list[Any] = [worker, reader]
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {worker}"}) as session:
            for name in ("order:1", "payment:1"):
                path = f"{url}/v1/locks/{name}/acquire"
                async with session.post(path, json={}) as answer:
                    assert answer.status == 200
            async with session.get(f"{url}/v1/live/figures") as answer:
                assert answer.status == 403
        async with opened(url, reader) as page, opened(url, worker) as nothing:
            await page.until(lambda page: page.rows, "a row")
            await nothing.until(lambda page: page.state, "the state")
            assert page.rows.keys() == {"order:1"}
            assert not nothing.rows
            assert page.hello["login"]
            assert page.hello["rights"] == {"read": ["order:*"]}
            assert (await page.get("names/payment:1"))["type"] == "urn:fencelock:forbidden"
            assert "may_break" not in await page.get("names/order:1")
            path = f"{url}/v1/locks/order:1"
            fence = page.rows["order:1"]["fence"]
            async with page.session.delete(path, params={"fence": fence}) as answer:
                assert answer.status == 403
        assert not any(each in json.dumps(page.hello) for each in asked)
        async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/live") as answer:
            assert answer.status == 401


async def test_a_token_that_is_revoked_ends_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_STATE_EVERY", 0.05)
    file = tmp_path / "tokens.toml"
    token = token_in(file, "reader", read=["*"])
    service = Service(memory(tokens=str(file)), read_keys(file))
    async with serving(service) as url, opened(url, token) as page:
        await page.until(lambda page: page.state, "the state")
        service.use_keys(Keys({}, {}))
        while await page.read():
            pass
        assert "draining" not in page.words


async def test_a_draining_replica_sends_its_pages_elsewhere() -> None:
    service = Service(memory())
    async with serving(service) as url, opened(url) as page:
        await page.until(lambda page: page.state, "the state")
        await service.drain()
        while await page.read():
            pass
        assert page.words[-1] == "draining"
        async with page.session.get(f"{url}/v1/live") as answer:
            assert answer.status == 503


async def test_only_so_many_pages() -> None:
    async with serving(Service(memory(event_streams=1))) as url, opened(url) as page:
        await page.until(lambda page: page.state, "the state")
        async with page.session.get(f"{url}/v1/live") as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (429, "15")


async def test_pages_share_one_poller_that_rests_when_all_are_closed() -> None:
    service = Service(memory())
    asked: list[str] = []
    engine = service.watch.plain_engine
    listing, inspecting = engine.candidates, engine.inspect

    def candidates(*, timeout: float) -> Any:
        asked.append("list")
        return listing(timeout=timeout)

    async def inspect(name: str, *, limit: int, timeout: float) -> Any:
        asked.append(name)
        return await inspecting(name, limit=limit, timeout=timeout)

    engine.candidates, engine.inspect = candidates, inspect  # type: ignore[method-assign]
    async with serving(service) as url, raw_line(url) as line:
        await line.enter(ticket("a"))
        async with AsyncExitStack() as stack:
            pages = [await stack.enter_async_context(opened(url)) for _ in range(10)]
            for page in pages:
                await page.until(lambda page: page.rows, "the row")
                assert await page.show("a", opened="a") == 204
            asked.clear()
            await asyncio.gather(*(page.get("names/a") for page in pages))
            assert asked.count("a") <= 3  # one for all, and perhaps the poller has come by

        def rests() -> bool:
            return not service.live.pages._pages

        await soon(rests, "the pages to be closed")
        asked.clear()
        await asyncio.sleep(0)
        assert service.live.pages._polling is not None
        await soon(service.live.pages._polling.done, "the poller to rest")
        assert not asked


async def test_an_engine_that_does_not_answer_is_said_and_comes_back() -> None:
    service = Service(memory())
    engine = service.watch.plain_engine
    listing = engine.candidates

    async def away(*, timeout: float) -> AsyncIterator[list[str]]:
        for reason in ("nobody listens there",):
            raise EngineError(reason, outcome="not applied")
        yield []

    async with serving(service) as url, opened(url) as page:
        await page.until(lambda page: page.state.get("listed_at"), "a listing")
        engine.candidates = away  # type: ignore[method-assign]
        await page.until(lambda page: page.state.get("trouble"), "the trouble")
        assert page.state["trouble"]["detail"] == "nobody listens there"
        engine.candidates = listing  # type: ignore[method-assign]
        await page.until(lambda page: not page.state.get("trouble"), "the recovery")


async def test_one_name_with_its_queue_and_its_past() -> None:
    service = Service(memory())
    async with serving(service) as url, raw_line(url) as line, opened(url) as page:
        holder, waiter = ticket("a/b"), ticket("a/b")
        await line.enter(holder)
        await line.leave(holder)
        await line.enter(holder)
        await line.enter(waiter)
        found = await page.get("names/a%2Fb")
        assert found["may_break"]
        assert len(found["waiters"]) == found["row"]["waiting"] == 1
        assert [each["event"] for each in found["history"]] == ["granted", "released", "granted"]
        assert [each["replica"] for each in found["replicas"]] == [service.replica]
        assert (await page.get("names/free"))["row"]["name"] == "free"
        page.hello["stream"] = "of another replica"
        assert await page.show("a/b") == 404
        figures = await page.get("figures")
        assert figures["replicas"][0]["health"]["status"] == "ok"


def stamped(name: str, transaction: str) -> WireTicket:
    owner = Owner("host", 1, transaction, Stamp(transaction, 1, 0).pack())
    return WireTicket.pack(Ticket(name, ticket(name).id, 30.0, owner))


async def test_transactions_that_wait_in_a_circle() -> None:
    async with serving(Service(memory())) as url, opened(url) as page, raw_line(url) as line:
        for name, transaction in (("a", "1f"), ("b", "2f"), ("c", "3f")):
            await line.enter(stamped(name, transaction))
        first = stamped("b", "1f")
        await line.enter(first)
        await line.enter(stamped("c", "2f"))
        await page.until(lambda page: len(page.rows) == 3 and page.state, "the rows")
        assert not page.state.get("circles")
        await line.enter(stamped("a", "3f"))
        await page.until(lambda page: page.state.get("circles"), "the circle")
        (circle,) = page.state["circles"]
        steps = {each["transaction"]: each for each in circle["steps"]}
        assert steps["1f"]["waits_for"] == "b"
        assert steps["1f"]["holds"] == ["a"]
        assert [each["waits_for"] for each in circle["steps"]] in (
            ["b", "c", "a"],
            ["c", "a", "b"],
            ["a", "b", "c"],
        )
        assert (await page.get("names/c"))["circles"] == [circle]
        await line.leave(first)
        await page.until(lambda page: not page.state.get("circles"), "the end of the circle")
