"""Finds what is broken in the site: links and pictures that lead nowhere, requests to other servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {
    "audio": "src", "embed": "src", "iframe": "src", "img": "src", "link": "href", "object": "data",
    "script": "src", "source": "src", "track": "src", "video": "src",
}  # fmt: skip
"""What a browser loads without being asked."""


class _Page(HTMLParser):
    """What one page contains: anchors, and what it links to or loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors = {"", "__top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found.get("id", ""), found.get("name", "")}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if LOADED.get(tag, "") in found and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(found[LOADED[tag]])


def faults(html: Path) -> list[str]:
    """What is broken, as one line each: the page, and what it wants."""
    pages = {page: _Page(page.read_text("utf-8")) for page in sorted(html.rglob("*.html"))}
    return [
        f"{page.relative_to(html)}: {fault}"
        for page in pages
        if page.name != "404.html"  # its addresses begin at the root of a server
        for fault in _faults(page, pages)
    ]


def _faults(page: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    for address in pages[page].loads:
        if urlsplit(address).netloc:
            yield f"loads {address} from another server"
        elif not _file(page, address).exists():
            yield f"loads {address}, which does not exist"
    for address in pages[page].links:
        there = urlsplit(address)
        if there.scheme or there.netloc:
            continue
        found = _file(page, there.path) if there.path else page
        if not found.exists():
            yield f"links to {address}, which does not exist"
        elif found in pages and unquote(there.fragment) not in pages[found].anchors:
            yield f"links to {address}, where there is no such anchor"


def _file(page: Path, address: str) -> Path:
    path = Path(os.path.normpath(page.parent / unquote(urlsplit(address).path)))
    return path / "index.html" if path.is_dir() else path
