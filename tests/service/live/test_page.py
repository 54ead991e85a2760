"""The live page in a real browser: a real service on Redis, and real programs that hold and wait."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

import fencelock
from fencelock.core.ticket import Owner, Ticket
from fencelock.primitives.waiting import new_id
from fencelock.service.app import Service as App
from tests.browser import NARROW, NewTab, bytes_sent, check_accessibility
from tests.servers import RedisServer, connect
from tests.servers_service import Replica
from tests.service.company import ask, entering, ticket, token_in
from tests.service.in_process import memory
from tests.service.in_process import serving as in_process
from tests.service.live.board import Board
from tests.service.live.scene import Scene
from tests.waiting import soon

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Service(NamedTuple):
    """A service with tokens, in front of a Redis that no other test uses."""

    redis: RedisServer
    replica: Replica
    audit: Path
    program: str
    """The token of the programs that lock."""
    oncall: str
    """The token of a person who may break locks."""
    reader: str


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("live")
    tokens, audit = folder / "tokens.toml", folder / "audit.log"
    program = token_in(tokens, "shop", lock=["*"], read=["*"])
    oncall = token_in(tokens, "oncall", read=["*"], break_=["*"])
    reader = token_in(tokens, "reader", read=["*"])
    flags = ("--tokens", str(tokens), "--audit", str(audit))
    with (
        RedisServer(folder / "redis") as redis,
        Replica(folder / "replica", redis.url, *flags) as replica,
    ):
        yield Service(redis, replica, audit, program, oncall, reader)


@pytest.fixture
def scene(service: Service) -> Iterator[Scene]:
    """Programs that use the service. At first nothing is locked."""
    if not service.replica.runs:  # a test has failed
        service.replica.start()
    with connect(service.redis.url) as redis:
        redis.flushall()
    url = service.replica.url.replace("://", f"://{service.program}@")
    with Scene(url, service.redis.url) as scene:
        yield scene


@pytest_asyncio.fixture(loop_scope="session")
async def board(service: Service, new_tab: NewTab) -> Board:
    """An empty tab."""
    return Board(await new_tab(service.replica.url))


async def test_login(service: Service, scene: Scene, board: Board) -> None:
    """The address was shared by somebody who had filtered the list."""
    scene.hold("web-1", "order:1", "invoice:1")
    page = board.page
    await board.open("#/?q=order:*")
    await page.get_by_label("Token").wait_for()
    await check_accessibility(page)
    await board.log_in("flk_0123456789ab_wrong")
    await page.get_by_role("alert").filter(has_text="token").wait_for()
    await board.log_in(service.oncall)
    await board.names("order:1", what="what the link has asked for")
    assert await board.search.input_value() == "order:*"
    assert service.oncall not in page.url
    sent = await bytes_sent(page)
    assert {"/", "/page/app.js", "/page/style.css"} <= sent.keys()
    assert sum(sent.values()) < 100_000, sent

    await page.reload()
    await board.names("order:1", what="the tab is still logged in")
    await board.button("Log out").click()
    await page.get_by_label("Token").wait_for()
    assert await page.get_by_text("order:1").count() == 0
    assert await page.evaluate("sessionStorage.length + localStorage.length") == 0


async def test_the_list(service: Service, scene: Scene, board: Board) -> None:
    first, second, tenth = scene.hold("web-1", "order:1", "order:2", "order:10", label="checkout")
    (invoice,) = scene.hold("web-2", "invoice:7", label="month end")
    scene.queue("office", "order:2", label="refund")
    scene.queue("web-2", "order:2", label="audit")
    page = board.page
    await board.open(token=service.oncall)
    fences = {
        "order:1": str(first), "order:2": str(second), "order:10": str(tenth), "invoice:7": str(invoice)
    }  # fmt: skip
    # The names of the test before may still be listed for a moment.
    rows = await board.until(
        lambda rows: (
            {name: row["Fence"] for name, row in rows.items()} == fences
            and rows["order:2"]["Queue"] == "2"
        ),
        "all of it",
    )
    assert rows["invoice:7"]["Holder"] == f"month end (web-2:{scene.on('web-2').pid})"
    assert "refund (office" in rows["order:2"]["Waits longest"]
    await check_accessibility(page)

    await board.button("order: 3 names").click()
    await board.names("invoice:7", what="the group is closed")
    await page.get_by_label("Group by prefix").uncheck()
    await board.sort("Name")
    await board.names("invoice:7", "order:1", "order:2", "order:10", what="by name")
    await board.sort("Name")
    await board.names("order:10", "order:2", "order:1", "invoice:7", what="the other way round")
    for text, found in {
        "voice": ["invoice:7"],  # a part of the name
        "order:?": ["order:2", "order:1"],
        "MONTH": ["invoice:7"],  # the holder's label
        "office": ["order:2"],  # the host of the waiter
        f"web-1:{scene.on('web-1').pid}": ["order:10", "order:2", "order:1"],
    }.items():
        await board.filter(text)
        await board.names(*found, what=text)
    await board.filter("")
    await board.show("Queued")
    await board.names("order:2", what="names with a queue")
    await board.show("All")
    await board.names("order:10", "order:2", "order:1", "invoice:7", what="all names again")

    # All of it with the keyboard alone.
    keys = page.keyboard
    await keys.press("/")
    await keys.type("order:")
    await board.names("order:10", "order:2", "order:1", what="the filter")
    await keys.press("Escape")  # forgets the filter
    await board.names("order:10", "order:2", "order:1", "invoice:7", what="all names again")
    await keys.press("Escape")  # leaves the field
    for key in ("j", "ArrowDown", "k", "j", "Enter"):
        await keys.press(key)
    await board.heading.get_by_text("order:2", exact=True).wait_for()
    await keys.press("b")
    await board.dialog.get_by_text("Break this lock?").wait_for()
    await keys.press("Escape")
    await board.dialog.wait_for(state="hidden")
    await keys.press("Escape")
    await board.names("order:10", "order:2", "order:1", "invoice:7", what="all names again")
    await keys.press("?")
    await board.dialog.get_by_text("next row").wait_for()


async def test_a_name_its_break_and_the_whole(service: Service, scene: Scene, board: Board) -> None:
    (fence,) = scene.hold("web-1", "job:1", label="stuck")
    scene.queue("web-2", "job:1", label="next")
    scene.queue("office", "job:1", label="third")
    await board.open(token=service.oncall)
    await board.look_at("job:1")
    (holder,) = await board.until_table("Holders", len, "the holder")
    assert holder["Who"] == f"stuck (web-1:{scene.on('web-1').pid})"
    assert holder["Fence"] == str(fence)
    queue = await board.until_table("Queue", len, "the queue")
    assert [each["Who"].split()[0] for each in queue] == ["next", "third"]
    (granted,) = await board.until_table("History", len, "its history")
    assert (granted["Event"], granted["Fence"]) == ("granted", str(fence))
    await check_accessibility(board.page)

    await board.offer_break()
    assert await board.dialog.get_by_role("button", name="Break", exact=True).is_disabled()
    assert "stuck" in await board.confirm_break()
    await board.dialog.get_by_role("button", name="Close").click()
    await board.until_table("Holders", lambda rows: "next" in rows[0]["Who"], "the next one")
    history = await board.until_table(
        "History", lambda rows: "broken" in [each["Event"] for each in rows], "the break"
    )
    (entry,) = (each for each in history if each["Event"] == "broken")
    assert (entry["Note"], entry["Fence"]) == ("by oncall", str(fence))
    lines = [json.loads(line) for line in service.audit.read_text().splitlines()]
    (line,) = (each for each in lines if each["event"] == "broke")
    assert (line["principal"], line["name"], line["fence"]) == ("oncall", "job:1", str(fence))

    await board.offer_break()
    scene.free("web-2", "job:1")
    await board.dialog.get_by_text("third").wait_for()  # the dialog says who holds it by now
    board.tab.announce("status of 409")
    assert "has changed hands" in await board.confirm_break()
    await board.dialog.get_by_role("button", name="Close").click()
    assert [each.owner.label for each in scene.look("job:1").holders] == ["third"]

    await board.page.get_by_role("link", name="The whole").click()
    await board.page.get_by_role("heading", name="The last hour").wait_for()
    await board.page.get_by_role("table", name="Replicas").wait_for()
    await check_accessibility(board.page)


async def test_a_reader_sees_what_comes_to_harm(
    service: Service, scene: Scene, board: Board, record_property: Any
) -> None:
    names = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP}
    for name in names:
        scene.hold(name, name, label="unlucky", ttl=1)
        scene.queue("heir", name, label="heir")
    await board.open(token=service.reader)
    await board.until(lambda rows: all(rows.get(name, {}).get("Queue") for name in names), "both")
    for name, signum in names.items():
        os.kill(scene.on(name).pid, signum)

    async def shown(name: str) -> None:
        await soon(lambda: scene.look(name).abandoned, "the engine to know it")
        known = time.monotonic()
        await board.until(
            lambda rows: "abandoned" in rows[name]["Name"] and "heir" in rows[name]["Holder"],
            f"the new holder of {name}, which was abandoned",
        )
        record_property(f"{name}: seconds until it was shown", round(time.monotonic() - known, 2))

    await asyncio.gather(*map(shown, names))
    for name in names:
        await board.go_to(name)
        history = await board.until_table(
            "History", lambda rows: len(rows) == 3, "it has lost its lease"
        )
        events = [(each["Event"], each["Who"].split()[0]) for each in history]
        assert events == [("silent", "unlucky"), ("granted", "heir"), ("granted", "unlucky")]
        assert history[1]["Note"] == "after a holder that did not release it"
    await board.page.get_by_text("read-only").wait_for()
    assert await board.button("Break").count() == 0
    path = f"/v1/locks/stopped?fence={scene.look('stopped').fence}"
    refused = ask(service.replica, path, token=service.reader, method="DELETE")
    assert (refused.status, refused.kind) == (403, "forbidden")


HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;`${1}"
RIGHT_TO_LEFT = "سجل:" + "א" * 20
LONG = "long/" + "x" * 507


async def test_narrow_and_dark(service: Service, scene: Scene, new_tab: NewTab) -> None:
    names = (HOSTILE, RIGHT_TO_LEFT, LONG)
    for name in names:
        scene.hold("web-1", name, label=name[:200])
        scene.queue("web-2", name, label=name[:200])
    turned = ticket("turned")
    turned["owner"] = {"host": "h", "pid": 1, "label": "a\u202eb\u2028c\n<b>d</b>"}
    reply = ask(service.replica, "/v1/enter", entering(turned), token=service.program)
    assert reply.status == 200
    board = Board(await new_tab(service.replica.url, size=NARROW, dark=True))
    page = board.page

    await board.open()
    await page.get_by_label("Token").wait_for()
    assert await board.overflow() == 0
    await board.log_in(service.oncall)
    rows = await board.until(
        lambda rows: (
            rows.keys() == {*names, "turned"} and all(rows[each]["Queue"] for each in names)
        ),
        "all of it",
    )
    assert [rows[name]["Name"] for name in names] == list(names)
    assert rows["turned"]["Holder"].startswith("a\\u{202e}b\\u{2028}c\\u{a}<b>d</b> (h")
    assert await board.overlaps() == []
    assert await board.overflow() == 0
    await check_accessibility(page)
    dark = await board.background()
    await board.button("Colours").click()  # as the system has them, light, dark
    assert await board.background() != dark
    await board.button("Colours").click()
    for name in names:
        await board.look_at(name)
        await board.until_table("Queue", len, "the queue")
        assert await page.locator("main img").count() == 0
        assert await board.overflow() == 0
        await page.get_by_role("link", name="All names").click()
    await board.go_to(LONG)
    await board.offer_break()
    assert await board.overflow() == 0
    await check_accessibility(page)
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="The whole").click()
    await page.get_by_role("table", name="Replicas").wait_for()
    assert await board.overflow() == 0


@pytest_asyncio.fixture(loop_scope="session")
async def crowded() -> AsyncIterator[str]:
    """The URL of a service in this process, without tokens and with ten thousand names."""
    app = App(memory())
    owner = Owner("web-1", 1)
    tickets = [Ticket(f"n:{each:05}", new_id(), 600.0, owner) for each in range(10_000)]
    await app.watch.plain_engine.enter_free(tickets, timeout=10)
    async with in_process(app) as url:
        yield url


async def test_ten_thousand_names(crowded: str, new_tab: NewTab) -> None:
    board = Board(await new_tab(crowded))
    await board.open()
    await board.page.get_by_text("10,000 names").last.wait_for()
    assert 10 < len(await board.rows()) < 200
    await board.sort("Name")
    await board.list.evaluate("(list) => list.scrollTo(0, list.scrollHeight)")
    rows = await board.until(lambda rows: "n:09999" in rows, "the last name")
    assert len(rows) < 200


async def test_the_service_comes_back(service: Service, scene: Scene, board: Board) -> None:
    scene.hold("web-1", "before", "meanwhile")
    await board.open(token=service.oncall)
    await board.until(lambda rows: rows.keys() == {"before", "meanwhile"}, "both names")
    board.tab.announce("request failed|Failed to load resource")
    service.replica.kill()
    await board.lost.wait_for()
    await check_accessibility(board.page)
    with fencelock.Client(service.redis.url) as client:
        client.break_lock("meanwhile")
        with client.lock("after"):
            service.replica.start()
            await board.live()
            await board.until(lambda rows: rows.keys() == {"before", "after"}, "the changes")

    service.replica.stop()  # drains: an open page does not hold it up
    await board.lost.wait_for()
