"""The list of names: a row per name, in columns that suit the width."""

from __future__ import annotations

import math
from typing import NamedTuple

from rich.cells import cell_len
from rich.text import Text

from fencelock.cli.listing import owner_text
from fencelock.cli.top.model import Row
from fencelock.cli.top.parts import at_least, bar, brief, fit, share, tail
from fencelock.cli.top.state import State

_SHORT_FENCE = 8
"""On a narrow terminal, only the end of a fence is shown."""

_LEAST = 12
"""Cells that a name and a holder need at least. Before they get less, other columns are left out."""

_ENOUGH = 28
"""Cells that a name and a holder may take from the fence."""

_WIDE = 110
"""From this width on, the bars are longer."""

_TITLES = ("NAME", "HOLDER", "FENCE", "HELD", "TTL", "WAIT", "HANDOFFS", "!")
_NUMBERS = ("FENCE", "HELD", "WAIT", "HANDOFFS")
_MIN_WIDTHS = {"NAME": 4, "HOLDER": 6, "FENCE": 5, "HELD": 5, "TTL": 3, "WAIT": 4, "HANDOFFS": 8}
_FIRST_TO_GO = ("HANDOFFS", "FENCE", "TTL", "HOLDER", "HELD", "!", "WAIT")


class _Column(NamedTuple):
    title: str
    width: int
    right: bool = False


class _Cells(NamedTuple):
    """A row as text, by column."""

    texts: dict[str, str]
    styles: dict[str, str]


def table(state: State, width: int, room: int, *, faded: bool) -> list[Text]:
    """The head of the table and the rows that fit. `faded`: it is not known whether they are still true."""
    with_head = room > 1
    rows = state.shown(max(1, room - with_head))
    if not rows:
        return [Text(_nothing(state), "dim")]
    cells = [_cells(row, width) for row in rows]
    columns = _columns(cells, width)
    lines = [Text(" ".join(fit(*column) for column in columns), "bold")]
    selected = state.index() - state.first
    for number, (texts, styles) in enumerate(cells):
        old = faded or _older(rows[number], state)
        line = Text(style="dim" if old else "")
        for column in columns:
            text = texts[column.title]
            text = tail(text, column.width) if column.title == "FENCE" else text
            text = fit(text, column.width, column.right)
            line.append(text, "" if old else styles.get(column.title, ""))
            line.append(" ")
        line.right_crop(1)
        if number == selected:
            line.pad_right(max(0, width - line.cell_len))
            line.stylize("reverse")
        lines.append(line)
    return lines if with_head else lines[1:]


def _older(row: Row, state: State) -> bool:
    """Whether a row is older than the last poll. The next poll looks at it."""
    return state.model.last is not None and row.looked_at < state.model.last.at


def _nothing(state: State) -> str:
    if state.model.last is None:
        return ""
    return "No name matches the filter." if state.filter else "Nothing is held or waited for."


def _cells(row: Row, width: int) -> _Cells:
    texts = dict.fromkeys(_TITLES, "")
    texts["NAME"] = row.name
    styles: dict[str, str] = {}
    if row.seen is None:
        texts["HOLDER"] = "…"
        return _Cells(texts, {"HOLDER": "dim"})
    holders = row.seen.holders
    if holders:
        others = f"+{len(holders) - 1} " if len(holders) > 1 else ""
        texts["HOLDER"] = others + owner_text(holders[0])
        texts["HELD"] = brief(row.held_for or 0.0)
        texts["TTL"], styles["TTL"] = _ttl(row, 10 if width >= _WIDE else 5)
    texts["FENCE"] = str(holders[0].fence if holders else row.seen.fence)
    texts["WAIT"] = str(row.waiting)
    texts["HANDOFFS"] = at_least(row.rate)
    texts["!"] = "!" if row.seen.abandoned else ""
    styles |= {"NAME": "bold", "WAIT": "yellow" if row.waiting else "dim", "!": "bold red"}
    return _Cells(texts, styles)


def _ttl(row: Row, width: int) -> tuple[str, str]:
    if row.expires_in == math.inf:
        return "never", "dim"
    left = share(row.expires_in, row.ttl)
    # A holder that renews in time has two thirds left, or more.
    style = "green" if left > 0.6 else "yellow" if left > 0.3 else "red"
    return f"{bar(row.expires_in, row.ttl, width)} {brief(row.expires_in):>5}", style


def _columns(rows: list[_Cells], width: int) -> list[_Column]:
    """The columns that have room, and how wide they are. Numbers keep their width, other text is cut off."""
    widths = {title: max(cell_len(cells.texts[title]) for cells in rows) for title in _TITLES}
    if not widths["!"]:
        del widths["!"]
    widths = {title: max(size, _MIN_WIDTHS.get(title, 0)) for title, size in widths.items()}
    # The numbers should not move each time that a name or a holder comes or goes.
    name, holder = (math.ceil(widths[title] / 4) * 4 for title in ("NAME", "HOLDER"))
    del widths["NAME"], widths["HOLDER"]

    def space() -> int:
        """What is left for the name and the holder."""
        return width - sum(widths.values()) - len(widths) - (holder > 0)

    if space() < min(name, _ENOUGH) + min(holder, _ENOUGH):
        widths["FENCE"] = min(widths["FENCE"], _SHORT_FENCE)
    for title in _FIRST_TO_GO:
        if space() >= min(name, _LEAST) + min(holder, _LEAST):
            break
        if title == "HOLDER":
            holder = 0
        widths.pop(title, None)
    name = max(1, min(name, max(space() - holder, space() // 2)))
    widths |= {"NAME": name, "HOLDER": max(0, min(holder, space() - name))}
    return [
        _Column(title, widths[title], title in _NUMBERS) for title in _TITLES if widths.get(title)
    ]
