"""Small pieces of text that the pages are made of. Widths are in cells: some characters take two.

All text that other processes may have written goes through `fit`, `wrapped` or `folded`, which take out
control characters.
"""

from __future__ import annotations

import math
import textwrap

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.text import Text

from fencelock.cli.messages import printable


def fit(text: str, width: int, right: bool = False) -> str:
    """The text in exactly so many cells: cut off with an ellipsis, or filled with spaces."""
    text = printable(text)
    size = cell_len(text)
    if size > width:
        return set_cell_size(text, max(0, width - 1)) + "…"[:width]
    space = " " * (width - size)
    return space + text if right else text + space


def tail(text: str, width: int) -> str:
    """The end of a number, if it is too long: of two fences, only the ends differ."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def brief(seconds: float) -> str:
    """A duration in at most five characters: 0.4s, 12s, 5m03s, 42m, 2h10m, 3d04h, 99d."""
    if seconds == math.inf:
        return "never"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f}s"
    total = round(seconds)
    if total < 60:
        return f"{total}s"
    for size, unit, smaller, letter in ((60, "m", 1, "s"), (3600, "h", 60, "m")):
        if total < 10 * size:
            return f"{total // size}{unit}{total % size // smaller:02d}{letter}"
        if total < size * (60 if unit == "m" else 24):
            return f"{total // size}{unit}"
    days, rest = divmod(total, 86_400)
    return f"{days}d{rest // 3600:02d}h" if days < 10 else f"{days}d"


def bar(left: float, whole: float, width: int) -> str:
    """How much of a time is left, as a bar."""
    filled = math.ceil(width * share(left, whole))
    return "█" * filled + "░" * (width - filled)


def share(left: float, whole: float) -> float:
    """How much of a time is left, from 0 to 1."""
    return max(0.0, min(left / whole, 1.0)) if whole > 0 else 0.0


def at_least(rate: float | None) -> str:
    """A rate that may be higher in truth. It is rounded down for that reason. Nothing if we saw nothing."""
    if not rate:
        return ""
    digits = 2 if rate < 1 else 1 if rate < 10 else 0
    return f"≥{math.floor(rate * 10**digits + 1e-9) / 10**digits:.{digits}f}/s"


def wrapped(text: str, width: int, style: str = "") -> list[Text]:
    """A sentence in lines. Words that are too long are broken."""
    sentence = printable(" ".join(text.split()))
    lines = textwrap.wrap(sentence, max(1, width), break_on_hyphens=False)
    return [Text(line, style) for line in lines]


def folded(text: str, width: int, style: str = "") -> list[Text]:
    """A name in lines, exactly as it is."""
    return [Text(line, style) for line in chop_cells(printable(text), max(2, width))]
