"""The site has all pages, shows them as GitHub does, and asks nobody but its own server."""

from __future__ import annotations

import html
import re
import threading
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.browser import NARROW, NewTab, Tab, check_accessibility
from website.__main__ import server
from website.examine import faults
from website.navigation import listed, sections
from website.pages import INDEX, REPOSITORY, misplaced, places, with_links

STRUCTURE = {"blockquote", "h2", "h3", "h4", "img", "li", "ol", "pre", "table", "td", "th", "ul"}


def test_every_page_is_in_the_navigation() -> None:
    assert not misplaced()
    assert len(listed(INDEX)) > 80


def test_the_navigation_names_each_page_once() -> None:
    titles = [entry.title for entries in sections(INDEX).values() for entry in entries]
    paths = [entry.path for entries in sections(INDEX).values() for entry in entries]
    assert len(set(titles)) == len(titles)
    assert len(set(paths)) == len(paths)


class _Structure(HTMLParser):
    """How often each element occurs in a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.count[tag] += tag in STRUCTURE


def test_pages_look_as_on_github(site: Path) -> None:
    """Zensical reads Markdown in its own way: a list may end where nobody would expect it."""
    github = MarkdownIt("commonmark").enable("table")
    for source, place in places().items():
        if source.suffix == ".md":
            page = site / place.removesuffix(".md") / "index.html"
            text = (page if page.exists() else site / place).with_suffix(".html").read_text()
            article = text[text.index("<article") : text.index("</article>")]
            expected = _Structure(github.render(source.read_text())).count
            assert _Structure(article).count == expected, place


def test_pages_of_examples_have_the_whole_program(site: Path) -> None:
    for source, place in places().items():
        if source.suffix == ".py":
            page = (site / place.removesuffix(".md") / "index.html").read_text()
            shown = html.unescape(re.sub("<[^>]*>", "", page))
            code = source.read_text().partition('"""\n')[2]
            assert all(line in shown for line in code.splitlines()), place


@pytest.mark.parametrize(
    ("link", "place"),
    [
        ("errors.md", "errors.md"),
        ("../README.md", "readme.md"),
        ("../examples/dining.py", "examples/dining.md"),
        ("observing/runbooks", "runbooks/index.md"),
        ("../ops", f"{REPOSITORY}/tree/main/ops"),
        ("../src/fencelock/core/queue.py", f"{REPOSITORY}/blob/main/src/fencelock/core/queue.py"),
        ("https://example.com/", "https://example.com/"),
        ("missing.md", "missing.md"),
    ],
)
def test_links_lead_to_their_place_on_the_site(link: str, place: str) -> None:
    text = f"[a]({link}#b) `[c]({link})`"
    assert with_links(text, INDEX, places()) == f"[a]({place}#b) `[c]({link})`"


BROKEN = """<a href="missing/">a</a> <a href="#nowhere">b</a>
<a href="good/#there">c</a> <a href="good/#gone">d</a> <a href="https://example.com/">e</a>
<img src="missing.png"> <script src="https://example.com/a.js"></script>
<link rel="canonical" href="https://example.com/">"""


def test_what_is_broken_is_found(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "index.html").write_text('<h1 id="there">Good</h1>')
    (tmp_path / "index.html").write_text(BROKEN)
    assert faults(tmp_path) == [
        "index.html: loads missing.png, which does not exist",
        "index.html: loads https://example.com/a.js from another server",
        "index.html: links to missing/, which does not exist",
        "index.html: links to #nowhere, where there is no such anchor",
        "index.html: links to good/#gone, where there is no such anchor",
    ]


@pytest.fixture(scope="module")
def origin(site: Path) -> Iterator[str]:
    with server(site, 0) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()
        thread.join()


@pytest.mark.asyncio(loop_scope="session")
async def test_search_needs_no_other_server(origin: str, new_tab: NewTab) -> None:
    """A tab fails if it asks another server, or if anything is missing (tests/browser.py)."""
    tab: Tab = await new_tab(origin)
    await tab.page.goto(f"{origin}/")
    box = tab.page.get_by_placeholder("Search")
    await box.wait_for(state="attached")
    await tab.page.get_by_role("button", name="Search").first.click()
    await box.fill("semaphores")
    await tab.page.get_by_role("option", name="Semaphores").first.click()
    await tab.page.wait_for_url(f"{origin}/primitives/semaphores/**")
    await tab.page.get_by_role("heading", name="What is promised").wait_for()


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(("page", "dark"), [("", False), ("primitives/semaphores/", True)])
async def test_pages_fit_a_phone(origin: str, new_tab: NewTab, page: str, dark: bool) -> None:
    tab: Tab = await new_tab(origin, size=NARROW, dark=dark)
    await tab.page.goto(f"{origin}/{page}")
    too_wide = "document.scrollingElement.scrollWidth > document.scrollingElement.clientWidth"
    assert not await tab.page.evaluate(too_wide)
    await check_accessibility(tab.page)
