"""Writes the report: one HTML file that needs nothing else, no server and no network."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from fencelock.core.url import Url

_PARTS = ("text", "history", "palette", "paint", "overview", "card", "timeline", "page")
"""One scope for all, so each may use what the ones before it define."""


def write_report(history: Iterable[dict[str, Any]], path: Path | str) -> None:
    """Write the report about a history to this file. The history is read once, line by line."""
    before, after = _frame().split("{{history}}")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(before)
        for record in history:
            file.write(embedded(record) + "\n")
        file.write(after)


def embedded(record: dict[str, Any]) -> str:
    """One line of JSON that is safe inside of a script element, and still JSON for all other readers.

    Names come from users. An element ends at `</script`, wherever it stands, and `<!--` changes how the
    rest is read. So no `<` is written as such.
    """
    if record.get("type") == "run" and record.get("url"):
        record = {**record, "url": without_password(record["url"])}
    try:
        line = json.dumps(record, allow_nan=False, separators=(",", ":"))
    except ValueError:  # browsers don't read infinity
        line = json.dumps(_finite(record), separators=(",", ":"))
    return line.replace("<", "\\u003c")


def without_password(url: str) -> str:
    """The URL of an engine as people may see it."""
    try:
        return str(Url.parse(url))
    except ValueError:
        return f"{url.partition('://')[0]}://…"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _frame() -> str:
    """The page around the history. Its policy allows this style and this script, and no request."""
    folder = files(__package__) / "page"
    style = (folder / "page.css").read_text("utf-8")
    script = "\n".join((folder / f"{part}.js").read_text("utf-8") for part in _PARTS)
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    page = (folder / "page.html").read_text("utf-8")
    for mark, text in (("policy", policy), ("style", style), ("script", script)):
        page = page.replace("{{" + mark + "}}", text)
    return page


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"
