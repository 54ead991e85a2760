"""The order of the pages: the lists in `docs/index.md`.

Each heading there begins a section of the site. Each item of a list below it begins with a link, which adds
a page. A link to a folder adds all pages in it. So a new page needs one line, and GitHub has the same order.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A page or a folder in the navigation."""

    title: str
    path: Path


def sections(index: Path) -> dict[str, list[Entry]]:
    """The entries of each section that `docs/index.md` has."""
    found: dict[str, list[Entry]] = {}
    for part in re.split(r"^## ", index.read_text("utf-8"), flags=re.MULTILINE)[1:]:
        links = re.findall(r"^- \[([^]]+)\]\(([^)#]+)\)", part, re.MULTILINE)
        entries = [Entry(_plain(title), (index.parent / path).resolve()) for title, path in links]
        if entries:
            found[part.partition("\n")[0]] = entries
    return found


def pages_in(folder: Path) -> list[Path]:
    """What a folder adds: its pages, or its examples, in the order of their names."""
    found = sorted(page for page in folder.iterdir() if page.suffix in (".md", ".py"))
    return sorted(found, key=lambda page: page.name != "index.md")


def heading(page: Path) -> str:
    """The title of a page: its first heading, or the name of an example."""
    if page.suffix == ".py":
        return page.stem.replace("_", " ").capitalize()
    lines = page.read_text("utf-8").splitlines()
    return next(_plain(line.removeprefix("# ")) for line in lines if line.startswith("# "))


def listed(index: Path) -> set[Path]:
    """All pages that the navigation leads to."""
    entries = [entry for section in sections(index).values() for entry in section]
    folders = [entry.path for entry in entries if entry.path.is_dir()]
    pages = {entry.path for entry in entries if not entry.path.is_dir()}
    return {index.resolve(), *pages}.union(*map(pages_in, folders))


def _plain(text: str) -> str:
    return text.replace("`", "")
