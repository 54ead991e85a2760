"""The report in a real browser, from a file, without any network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from fencelock.torture.report.page import embedded, write_report
from tests.browser import NARROW, NewTab, Tab, check_accessibility
from tests.effort import effort
from tests.torture.report import histories
from tests.torture.report.histories import HOSTILE, Record
from tests.waiting import soon

if TYPE_CHECKING:
    from playwright.async_api import Page

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILE = "file://"


async def opened(new_tab: NewTab, history: list[Record], folder: Path, **how: Any) -> Page:
    """The report of a history in a tab that makes no request but the one for the file."""
    file = folder / "report.html"
    write_report(history, file)
    tab: Tab = await new_tab(FILE, **how)
    requests: list[str] = []
    tab.page.on("request", lambda request: requests.append(request.url))
    await tab.page.goto(file.as_uri())
    await tab.page.get_by_role("heading", level=1).wait_for()
    assert requests == [file.as_uri()]
    return tab.page


async def shown(page: Page) -> tuple[float, float]:
    """From when to when the timeline shows the run."""
    data = await page.locator("#canvas").evaluate("canvas => ({ ...canvas.dataset })")
    return float(data["from"]), float(data["until"])


async def until_shown(page: Page, condition: Any, what: str) -> tuple[float, float]:
    async def look() -> tuple[float, float] | None:
        found = await shown(page)
        return found if condition(*found) else None

    found: tuple[float, float] = await soon(look, what)
    return found


async def hover(page: Page, lane: int, at: float) -> str:
    """Point at a moment of a lane, where its leases are. Returns what the card says."""
    canvas = page.locator("#canvas")
    await canvas.scroll_into_view_if_needed()
    box = await canvas.bounding_box()
    assert box
    data = {k: float(v) for k, v in (await canvas.evaluate("it => ({ ...it.dataset })")).items()}
    part = (at - data["from"]) / (data["until"] - data["from"])
    x = data["left"] + part * (box["width"] - data["left"])
    y = data["top"] + (lane + 0.4) * data["lane"]
    await page.mouse.move(box["x"] + x, box["y"] + y)
    return await page.locator("#card").inner_text()


async def test_a_run_that_held(new_tab: NewTab, tmp_path: Path) -> None:
    history = histories.held()
    page = await opened(new_tab, history, tmp_path)
    assert await page.get_by_role("heading", level=1, name="Held", exact=True).is_visible()
    assert await page.get_by_text("No update was lost, and no stale holder wrote.").is_visible()
    assert await page.get_by_role("cell", name="A stale holder can't write").is_visible()
    assert await page.get_by_role("row", name="engine restarted 1 1 1 1").is_visible()
    assert not await page.locator("#broken").is_visible()
    assert await shown(page) == (0, 60)
    await check_accessibility(page)

    keys = page.keyboard
    await keys.press("+")
    nearer = await until_shown(page, lambda since, until: until - since < 40, "a zoom")
    assert sum(nearer) / 2 == pytest.approx(30)
    await keys.press("ArrowRight")
    later = await until_shown(page, lambda since, until: since > nearer[0], "a move")
    assert later[1] - later[0] == pytest.approx(nearer[1] - nearer[0])
    await keys.press("0")
    await until_shown(page, lambda *range: range == (0, 60), "the whole run")

    grant = next(each for each in history if each["type"] == "grant" and each["lost"])
    card = await hover(page, int(grant["worker"][1]) - 1, grant["at"] + 0.5)
    assert card.startswith("Lease\n")
    assert grant["fence"] in card
    assert "Fault: " in card
    await page.mouse.wheel(0, -100)
    await until_shown(page, lambda since, until: since <= grant["at"] < until < 60, "a zoom there")

    refused = [w for w in history if w["type"] == "write" and w["outcome"] == "refused"]
    await keys.press("0")
    await until_shown(page, lambda *range: range == (0, 60), "the whole run")
    await keys.press("n")
    middle = sum(await until_shown(page, lambda since, until: until - since < 10, "a mark")) / 2
    mark = min(refused, key=lambda each: float(each["at"]))
    assert middle == pytest.approx(mark["at"])
    card = await page.locator("#card").inner_text()
    assert card.startswith("Write refused by the storage\n")
    assert mark["newest"] in card
    assert mark["newest"] in await page.locator("#spoken").inner_text()


async def test_a_broken_run_opens_at_its_violation(new_tab: NewTab, tmp_path: Path) -> None:
    page = await opened(new_tab, histories.broken(), tmp_path, size=NARROW, dark=True)
    assert await page.get_by_role("heading", level=1, name="Broken", exact=True).is_visible()
    events = page.locator("#broken li")
    assert [(await each.inner_text()).split("\n")[:3] for each in await events.all()] == [
        ["1", "41.000 s", "w1.1"],
        ["2", "41.300 s", "w1.1"],
        ["3", "43.100 s", "w3.1"],
        ["4", "43.600 s", "w3.1"],
        ["5", "44.350 s", "w1.1"],
    ]
    since, until = await shown(page)
    assert (since + until) / 2 == pytest.approx((41.0 + 44.35) / 2)
    assert until - since < 15
    await check_accessibility(page)
    page_width = "document.documentElement.scrollWidth"
    assert await page.evaluate(page_width) <= NARROW[0]
    await events.nth(4).get_by_role("button").click()
    await until_shown(page, lambda *range: sum(range) / 2 == pytest.approx(44.35), "its event")
    assert "accepted write of 511" in await page.locator("#card").inner_text()


async def test_hostile_text_stays_text(new_tab: NewTab, tmp_path: Path) -> None:
    page = await opened(new_tab, histories.hostile(), tmp_path)
    assert await page.get_by_role("heading", name=HOSTILE[0]).is_visible()
    assert await page.get_by_text(HOSTILE[1]).first.is_visible()
    assert await page.get_by_text("\\u{202e}gnp.seirotsih\\u{202c} שלום عالم").first.is_visible()
    assert await page.get_by_text("n… (10,000 characters)").first.is_visible()
    assert await page.evaluate("document.title") == "Broken: redis, lock – fencelock torture"
    assert await page.evaluate("document.images.length") == 0
    assert "hunter2" not in await page.content()


async def test_many_leases(new_tab: NewTab, tmp_path: Path) -> None:
    page = await opened(new_tab, histories.huge(effort(2_000, 50_000)), tmp_path)
    (_, end) = await shown(page)
    for _ in range(20):
        await page.keyboard.press("+")
    await until_shown(page, lambda since, until: until - since < end / 1_000, "a zoom")


async def test_an_empty_history(new_tab: NewTab, tmp_path: Path) -> None:
    page = await opened(new_tab, [], tmp_path)
    assert await page.get_by_role("heading", level=1, name="No verdict", exact=True).is_visible()
    assert await page.get_by_text("the run was cut short").is_visible()
    for key in ("n", "+", "ArrowLeft", "0"):
        await page.keyboard.press(key)


async def test_lines_are_json_for_everyone() -> None:
    for record in histories.hostile():
        line = embedded({**record, "unknown": None})
        assert not {"<", "\n"} & set(line)
        read = json.loads(line)
        if record["type"] == "run":
            assert read["url"] == "redis://me:***@127.0.0.1:6379"
        else:
            assert read == {**record, "unknown": None}
    assert json.loads(embedded({"at": float("nan")})) == {"at": None}
    assert json.loads(embedded({"type": "run", "url": "redis://a:b/c@d"}))["url"] == "redis://…"
