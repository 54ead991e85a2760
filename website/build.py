"""Builds the site: copies the pages, adds the reference, lets Zensical make HTML, and examines the result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from website import pages, reference
from website.examine import faults
from website.navigation import heading, pages_in, sections

HERE = Path(__file__).parent


class Faulty(Exception):
    """The site can't be built, or something in it is broken. The message names each page."""


def build(folder: Path) -> Path:
    """Build the site in this folder, which is deleted first. Returns the folder with the HTML.

    Raises `Faulty` if a link, an anchor or a picture leads nowhere, if a page is missing from the
    navigation, or if the site would ask another server for something.
    """
    if wrong := pages.misplaced():
        raise Faulty("\n".join(sorted(wrong)))
    shutil.rmtree(folder, ignore_errors=True)
    source, html = folder / "pages", folder / "html"
    pages.copy(source)
    names = reference.write(source / "reference")
    for each in ("style.css", "favicon.svg"):
        shutil.copy(HERE / each, source)
    config = folder / "zensical.toml"
    config.write_text(_config(names), "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict", "--config-file", config],
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    if done.returncode:
        raise Faulty(done.stderr.partition("Traceback")[0])
    if found := faults(html):
        raise Faulty("\n".join(found))
    return html


def _config(names: list[tuple[str, str]]) -> str:
    """The settings of Zensical, with the navigation."""
    settings = (HERE / "zensical.toml").read_text("utf-8")
    added = f'docs_dir = "pages"\nsite_dir = "html"\nnav = {_toml(_navigation(names))}\n'
    return settings.replace("[project]\n", f"[project]\n{added}", 1)


def _navigation(names: list[tuple[str, str]]) -> list[Any]:
    places = pages.places()
    nav: list[Any] = [{"Home": "index.md"}]
    for title, entries in sections(pages.INDEX).items():
        items: list[Any] = []
        for entry in entries:
            if entry.path.is_dir():
                index = [places[entry.path]] if entry.path in places else []
                below = [{heading(page): places[page]} for page in pages_in(entry.path)]
                items.append({entry.title: index + below})
            else:
                items.append({entry.title: places[entry.path]})
        nav.append({title: items})
    made: list[Any] = [{title: f"reference/{name}"} for title, name in names]
    return [*nav[:-1], {"Reference": ["reference/index.md", *made]}, nav[-1]]


def _toml(value: Any) -> str:
    """Navigation as TOML: lists, and tables with one key. A JSON string is a TOML string, too."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case dict():
            return (
                "{ "
                + ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items())
                + " }"
            )
        case _:
            return "[" + ", ".join(map(_toml, value)) + "]"
