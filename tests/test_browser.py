"""The harness notices what a page must not do. A check that can't fail is worth nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests import browser as harness
from tests.browser import Tab, bytes_sent, check_accessibility, find_chromium
from tests.servers import HOST
from tests.waiting import soon

if TYPE_CHECKING:
    from playwright.async_api import Browser

HEAD = '<!doctype html><html lang="en"><title>A page</title><link rel="icon" href="data:,">'
GOOD = f"{HEAD}<main><h1>Good</h1><label>Name <input></label></main>"
BAD = f"""{HEAD}<link rel="stylesheet" href="/pale.css"><script src="/bad.js"></script>
<main><h1>Bad</h1><input><p>pale</p><p style="color: black">an inline style</p></main>"""

SCRIPT = """
console.error("an error");
console.warn("a warning");
fetch("/missing");
fetch("http://stranger.example/").catch(() => {});
setTimeout(() => { throw new Error("thrown"); });
"""

FILES = {
    "/good": ("text/html", GOOD),
    "/bad": ("text/html", BAD),
    "/bad.js": ("text/javascript", SCRIPT),
    "/pale.css": ("text/css", "p { color: #ccc }"),
}

ANNOUNCED = "console warning: a warning"
WRONGS = (
    ANNOUNCED,
    "console error: an error",
    "console error: .* status of 404",
    "console error: .* inline style .* Content Security Policy",
    "request to a stranger: http://stranger.example/",
    "request failed: GET http://stranger.example/: net::ERR_NAME_NOT_RESOLVED",
    "error: thrown",
)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, text = FILES.get(self.path, ("text/plain", ""))
        self.send_response(200 if text else 404)
        self.send_header("Content-Type", kind)
        # A page may ask strangers here, or the browser itself would prevent it.
        self.send_header("Content-Security-Policy", "default-src 'self' data:; connect-src *")
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the default writes to stderr."""


@contextmanager
def site() -> Iterator[str]:
    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.asyncio(loop_scope="session")
async def test_what_a_page_does_wrong_is_noticed(browser: Browser) -> None:
    with site() as origin:
        async with Tab.opened(browser, origin) as tab:
            await tab.page.goto(f"{origin}/good")
            await check_accessibility(tab.page)
            assert await bytes_sent(tab.page) == {"/good": len(GOOD)}

        with pytest.raises(AssertionError, match="must not do") as failure:
            await _misbehave(browser, origin)
        assert _missing(str(failure.value)) == [ANNOUNCED]


async def _misbehave(browser: Browser, origin: str) -> None:
    async with Tab.opened(browser, origin) as tab:
        tab.announce(ANNOUNCED)
        await tab.page.goto(f"{origin}/bad")
        await soon(lambda: not _missing("\n".join(tab.wrongs)), "all wrongs to be noticed")
        with pytest.raises(AssertionError, match="is not accessible") as found:
            await check_accessibility(tab.page)
        assert "label, critical" in str(found.value)
        assert "color-contrast, serious" in str(found.value)


def _missing(text: str) -> list[str]:
    return [each for each in WRONGS if not re.search(each, text)]


def test_no_chromium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "PROGRAMS", ("no-such-program",))
    with pytest.raises(AssertionError, match="apt-get install chromium-headless-shell"):
        find_chromium()
