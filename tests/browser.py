"""A headless Chromium for tests. A tab remembers everything that its page does wrong."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import pytest_asyncio

from tests.servers import HOST
from tests.waiting import PATIENCE

if TYPE_CHECKING:  # to import it takes half a second, and every worker collects all tests
    from playwright.async_api import Browser, ConsoleMessage, Page, Request

# Debian's own starter of the headless shell is a shell that stays: a signal would end only that one.
PROGRAMS = (
    *("/usr/lib/chromium/chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "google-chrome"),
)

FLAGS = (
    *("--disable-gpu", "--disable-quic", "--disable-sync"),
    # Playwright's own flags turn off everything else that would call home. This is for what they forget.
    f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {HOST}",
)

WIDE = (1280, 800)
NARROW = (360, 740)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run a Chromium with a profile that is deleted afterwards.

    It ends with our process, even if that is killed: Playwright's driver notices it.
    """
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(),
            args=FLAGS,
            chromium_sandbox=os.geteuid() != 0,  # root can't have one
        )
        try:
            yield browser
        finally:
            await browser.close()


def find_chromium() -> str:
    """The path of a Chromium."""
    found = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert found, (
        "tests of pages need a Chromium, and there is none; on Debian: apt-get install "
        "chromium-headless-shell; elsewhere put one into PATH as `chromium`"
    )
    return found


class Tab:
    """A page in a context of its own. Leaving it fails if the page did something wrong."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        """Where its requests may go: `http://127.0.0.1:7007`."""
        self.wrongs: list[str] = []
        """What it did wrong, in the words of the browser."""
        self._announced: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.wrongs.append(f"error: {error}"))
        page.on("crash", lambda _: self.wrongs.append("the page has crashed"))
        page.on("request", self._asked)
        page.on("requestfailed", self._failed)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, browser: Browser, origin: str, *, size: tuple[int, int] = WIDE, dark: bool = False
    ) -> AsyncIterator[Self]:
        """An empty tab. Waits for what a page shows are as patient as other waits of tests."""
        context = await browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
        )
        try:
            context.set_default_timeout(PATIENCE * 1000)
            tab = cls(await context.new_page(), origin)
            yield tab
        finally:
            await context.close()
        assert not tab.unannounced, "the page did what it must not do:\n" + "\n".join(
            tab.unannounced
        )

    @property
    def unannounced(self) -> list[str]:
        """What it did wrong without a call of `announce`."""
        return [
            wrong
            for wrong in self.wrongs
            if not any(re.search(each, wrong) for each in self._announced)
        ]

    def announce(self, pattern: str) -> None:
        """From now on, the test may cause this wrong: a text that contains the pattern is no failure."""
        self._announced.append(pattern)

    def _said(self, message: ConsoleMessage) -> None:
        # Chromium reports here what the content security policy has forbidden, too.
        if message.type in ("error", "warning"):
            self.wrongs.append(f"console {message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        inside = address.scheme in ("data", "blob", "about")
        if not inside and f"{address.scheme}://{address.netloc}" != self.origin:
            self.wrongs.append(f"request to a stranger: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the page itself did not want it any more
            self.wrongs.append(f"request failed: {request.method} {request.url}: {request.failure}")


NewTab = Callable[..., Awaitable[Tab]]

# The browser lives in the event loop of the session. Tests that use it run there, too, so they need
# `pytestmark = pytest.mark.asyncio(loop_scope="session")`.


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """One for each worker: workers that share one also see, and pay for, one another's pages."""
    async with chromium() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def new_tab(browser: Browser) -> AsyncIterator[NewTab]:
    """Open tabs: `await new_tab(origin, size=NARROW, dark=True)`. The test fails if a page misbehaves."""
    async with AsyncExitStack() as stack:

        async def opened(origin: str, **how: Any) -> Tab:
            return await stack.enter_async_context(Tab.opened(browser, origin, **how))

        yield opened


_AXE = {"resultTypes": ["violations"], "selectors": False, "preload": False}
"""What nobody reads here takes axe-core almost half of its time."""


async def check_accessibility(page: Page) -> None:
    """Fail if axe-core finds something serious."""
    from axe_playwright_python.async_playwright import Axe

    found = (await Axe().run(page, options=_AXE)).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert not serious, f"{page.url} is not accessible:\n" + "\n".join(map(_told, serious))


def _told(violation: dict[str, Any]) -> str:
    """A violation of the rules of axe-core, for people."""
    where = [f"    {node['html'][:200]}\n      {_why(node)}" for node in violation["nodes"][:5]]
    more = len(violation["nodes"]) - len(where)
    return "\n".join(
        [
            f"- {violation['help']} ({violation['id']}, {violation['impact']})",
            *where,
            *([f"    … and {more} more"] if more else []),
        ]
    )


def _why(node: dict[str, Any]) -> str:
    return "; ".join(check["message"] for kind in ("any", "all", "none") for check in node[kind])


async def bytes_sent(page: Page) -> dict[str, int]:
    """The files that the page consists of, and how many bytes of each were sent."""
    entries = await page.evaluate(
        """() => performance.getEntries()
            .filter(entry => entry.entryType === "navigation" || entry.entryType === "resource")
            .map(entry => [new URL(entry.name).pathname, entry.encodedBodySize])"""
    )
    return {path: size for path, size in entries if not path.startswith("/v1/")}
