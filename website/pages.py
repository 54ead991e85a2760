"""Copies the pages to the folder from which the site is made.

On GitHub, a page links to whatever is in the repository. On the site, links to other pages stay inside, and
so do links to examples and to folders that the navigation names: each of them gets a page. All other files
are not on the site, so links to them lead to the repository.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from markdown_it import MarkdownIt

from website.navigation import Entry, heading, listed, pages_in, sections

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "index.md"
REPOSITORY = "https://github.com/fencelock/fencelock"
OUTSIDE = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
"""Pages that are not in `docs/`, and their place on the site."""

_CODE = re.compile(r"^( *)```.*?^\1```$|``.+?``|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)")


def copy(target: Path) -> None:
    """Write all pages and pictures into `target`."""
    shutil.copytree(DOCS, target, ignore=shutil.ignore_patterns("*.md"), dirs_exist_ok=True)
    all_places = places()
    for source, place in all_places.items():
        page = target / place
        page.parent.mkdir(parents=True, exist_ok=True)
        text = _with_lists(with_links(_text(source), source, all_places))
        page.write_text(_landing(text) if source == INDEX else text, "utf-8")


def places() -> dict[Path, str]:
    """What has a page on the site: each file or folder, and the path of its page."""
    inside = {page: page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    outside = {ROOT / name: place for name, place in OUTSIDE.items()}
    programs = (ROOT / "examples").rglob("*.py")
    examples = {each: each.relative_to(ROOT).with_suffix(".md").as_posix() for each in programs}
    folders = {
        entry.path: f"{entry.path.name}/index.md"
        for entry in _folders()
        if not (entry.path / "index.md").exists()
    }
    return {**inside, **outside, **examples, **folders}


def misplaced() -> list[str]:
    """What is wrong with the navigation: pages that it leaves out, and entries that have no page."""
    known, named = places(), listed(INDEX)
    return [
        *(
            f"add a line to docs/index.md for {known[page]}"
            for page in known.keys() - named
            if page.is_file()
        ),
        *(
            f"docs/index.md leads to {os.path.relpath(page, ROOT)}, which is no page"
            for page in named - known.keys()
        ),
    ]


def _folders() -> list[Entry]:
    return [
        entry for section in sections(INDEX).values() for entry in section if entry.path.is_dir()
    ]


def _landing(text: str) -> str:
    """The landing page: nothing beside it, because it is a navigation itself, and no colons on its cards."""
    return "---\nhide: [navigation, toc]\n---\n" + re.sub(
        r"^(- \[.*?\]\(.*?\)):", r"\1", text, flags=re.MULTILINE
    )


def _text(source: Path) -> str:
    """The page that is made from a file or a folder, with the links of the file or folder."""
    if source.is_dir():
        title = next(entry.title for entry in _folders() if entry.path == source)
        items = [f"- [{heading(page)}]({page.relative_to(source)})" for page in pages_in(source)]
        return f"# {title}\n\n" + "\n".join(items) + "\n"
    text = source.read_text("utf-8")
    if source.suffix == ".py":
        about, code = ast.get_docstring(ast.parse(text)), text.partition('"""\n')[2].lstrip()
        return f"# {heading(source)}\n\n{about}\n\n```python\n{code}```\n"
    return text


def with_links(text: str, source: Path, all_places: Mapping[Path, str]) -> str:
    """The text, with links that work on the site. Code stays as it is."""
    folder = source if source.is_dir() else source.parent
    place = Path(all_places[source])

    def led(found: re.Match[str]) -> str:
        return _led(found[0], folder, place, all_places)

    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_LINK.sub(led, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, _LINK.sub(led, text[end:])])


def _led(target: str, folder: Path, place: Path, all_places: Mapping[Path, str]) -> str:
    """Where a link of this page leads on the site. A broken link stays broken, so that it is found."""
    there = (folder / target).resolve()
    if re.match(r"[a-z]+:", target) or not there.exists():
        return target
    if there in all_places:
        return os.path.relpath(all_places[there], place.parent)
    if there.is_relative_to(DOCS) and there.is_file():
        return os.path.relpath(there.relative_to(DOCS), place.parent)
    kind = "tree" if there.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{there.relative_to(ROOT)}"


def _with_lists(text: str) -> str:
    """The text, with lists that Zensical's Markdown understands as GitHub does.

    There, what belongs to an item stands four spaces in, and an empty line stands before a list and behind
    an item that has several parts.
    """
    lines = text.split("\n")
    apart: set[int] = set()
    for token in MarkdownIt().parse(text):
        first, end = token.map or (0, 0)
        if token.type.endswith("list_open") and token.level == 0:
            apart.add(first)
        elif token.type == "list_item_open":
            if "" in lines[first:end]:
                apart.add(end)
            marker = re.match(r"( *)(?:[-*+]|\d+[.)]) +", lines[first])
            assert marker, lines[first]
            inner = " " * len(marker[0])
            for number in range(first + 1, end):
                if lines[number].startswith(inner):
                    lines[number] = marker[1] + "    " + lines[number].removeprefix(inner)
    return "\n".join(f"\n{line}" if number in apart else line for number, line in enumerate(lines))
