"""The live page, as people and screen readers find their way on it: by roles and labels."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import quote

from tests.browser import Tab
from tests.waiting import soon

if TYPE_CHECKING:
    from playwright.async_api import Locator

LIST = "Names that are held or waited for"

# These are evaluated by the page, because a locator takes three times as long, and tests read often.

# The rows of the list: the name as it is, and {heading: text as it is shown}.
_READ_LIST = """(label) => {
    const list = document.querySelector(`[role=table][aria-label="${label}"]`);
    if (!list) return [];
    const text = (node) => node.innerText.replace(/\\s+/g, " ").trim();
    const buttons = list.querySelectorAll("[role=columnheader] button");
    const heads = [...buttons].map((button) => button.firstChild.textContent.trim());
    const cells = (row) =>
        [...row.querySelectorAll("[role=cell]")].map((cell, at) => [heads[at], text(cell)]);
    const rows = [...list.querySelectorAll("[role=row][data-name]")];
    rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex);
    return rows.map((row) => [row.dataset.name, Object.fromEntries(cells(row))]);
}"""

# The rows of another table: {heading: text as it is shown}.
_READ_TABLE = """(label) => {
    const table = document.querySelector(`table[aria-label^="${label}"]`);
    if (!table) return [];
    const text = (node) => node.innerText.replace(/\\s+/g, " ").trim();
    const heads = [...table.querySelectorAll("th")].map((each) => each.textContent);
    const cells = (row) => [...row.cells].map((cell, at) => [heads[at], text(cell)]);
    return [...table.querySelectorAll("tbody tr")].map((row) => Object.fromEntries(cells(row)));
}"""

# Pairs of texts in a row of the list that lie on each other.
_OVERLAPS = """() => {
    const box = (cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        const [inner, outer] = [range.getBoundingClientRect(), cell.getBoundingClientRect()];
        // What a cell cuts off does not reach its neighbour.
        return { text: cell.innerText, left: inner.left, top: inner.top,
            right: Math.min(inner.right, outer.right), bottom: Math.min(inner.bottom, outer.bottom) };
    };
    const meet = (a, b) =>
        Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
        Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
    return [...document.querySelectorAll("[role=row][data-name]")].flatMap((row) => {
        const cells = [...row.querySelectorAll("[role=cell]")].filter((cell) => cell.innerText.trim());
        const boxes = cells.map(box);
        const pairs = boxes.flatMap((a, at) => boxes.slice(at + 1).map((b) => [a, b]));
        return pairs.filter(([a, b]) => meet(a, b)).map(([a, b]) => [a.text, b.text]);
    });
}"""

Row = dict[str, str]
T = TypeVar("T")

_PAUSE = 0.05
"""Seconds from one look at the page to the next, at least. The page itself draws four times a second."""


class Board:
    """A tab that shows the live page."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.page = page = tab.page
        self.list = page.get_by_role("table", name=LIST)
        self.search = page.get_by_role("searchbox")
        self.dialog = page.get_by_role("dialog")
        self.main = page.get_by_role("main")
        self.heading = page.get_by_role("heading", level=1)
        self.lost = page.get_by_text("Connection lost:")

    async def open(self, at: str = "", token: str = "") -> None:
        """Load the page. With a token, log in, and wait until it is live."""
        await self.page.goto(f"{self.tab.origin}/{at}")
        if token:
            await self.log_in(token)
            await self.live()

    async def log_in(self, token: str) -> None:
        """Give a token at the login, which is there because the page tried without one."""
        self.tab.announce("status of 401")
        await self.page.get_by_label("Token").fill(token)
        await self.button("Log in").click()

    async def live(self) -> None:
        """Wait until the page says that it is live."""
        await self.page.get_by_text("Live", exact=True).wait_for()

    def button(self, label: str) -> Locator:
        return self.page.get_by_role("button", name=label)

    # --- the list

    async def rows(self) -> dict[str, Row]:
        """The rows that are in the document, from top to bottom: by name, {heading: text}."""
        return dict(await self.page.evaluate(_READ_LIST, LIST))

    async def until(self, condition: Callable[[dict[str, Row]], Any], what: str) -> dict[str, Row]:
        """Wait until the rows are like that, and return them."""
        return await self._until(self.rows, condition, f"the list: {what}")

    async def _until(
        self, read: Callable[[], Awaitable[T]], condition: Callable[[T], Any], what: str
    ) -> T:
        async def look() -> list[T]:
            found = await read()
            if condition(found):
                return [found]
            await asyncio.sleep(_PAUSE)
            return []

        (found,) = await soon(look, what)
        return cast("T", found)

    async def names(self, *expected: str, what: str) -> None:
        """Wait until exactly these rows are shown, in this order."""
        await self.until(lambda rows: list(rows) == list(expected), what)

    async def filter(self, text: str) -> None:
        await self.search.fill(text)

    async def sort(self, column: str) -> None:
        await self.list.get_by_role("columnheader", name=column).get_by_role("button").click()

    async def show(self, filter: str) -> None:
        """Show only some rows: "All", "Queued" …"""
        await (
            self.page.get_by_role("group", name="Show only")
            .get_by_role("button", name=filter)
            .click()
        )

    # --- one name

    async def look_at(self, name: str) -> None:
        """Open a name by its link in the list."""
        await self.list.get_by_role("link", name=name, exact=True).click()
        await self.heading.get_by_text(name, exact=True).wait_for()

    async def go_to(self, name: str) -> None:
        """Open a name by its address."""
        await self.page.goto(f"{self.tab.origin}/#/lock/{quote(name, safe='')}")

    async def table(self, label: str) -> list[Row]:
        """A table whose label begins like this: "Holders", "Queue", "History". Empty if there is none."""
        rows: list[Row] = await self.page.evaluate(_READ_TABLE, label)
        return rows

    async def until_table(
        self, label: str, condition: Callable[[list[Row]], Any], what: str
    ) -> list[Row]:
        """Wait until a table is like that, and return it."""
        return await self._until(lambda: self.table(label), condition, f"{label}: {what}")

    # --- the break

    async def offer_break(self) -> None:
        """Open the dialog on the page of a name."""
        await self.button("Break …").click()
        await self.dialog.wait_for()

    async def confirm_break(self) -> str:
        """Type the word, and break. Returns what came of it."""
        await self.dialog.get_by_label("Type break to go on").fill("break")
        await self.dialog.get_by_role("button", name="Break", exact=True).click()
        return await self.dialog.get_by_role("alert").inner_text()

    # --- how it looks

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wider

    async def overlaps(self) -> list[list[str]]:
        """Pairs of texts in a row of the list that lie on each other."""
        found: list[list[str]] = await self.page.evaluate(_OVERLAPS)
        return found

    async def background(self) -> str:
        colour: str = await self.page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour
