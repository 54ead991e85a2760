"""What came of a run, on one screen of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from rich.cells import cell_len, set_cell_size

from fencelock.torture.report.page import without_password

MOST_LINES = 24
_COUNTED = ("times", "holder", "waiter", "request")

Record = dict[str, Any]


def summary(history: Iterable[Record], width: int = 80) -> list[str]:
    """The verdict and what it rests on: at most 24 lines of this width, without colours."""
    kept = ("run", "verdict", "promise", "violation")
    records = [each for each in history if each.get("type") in kept]

    def of(kind: str) -> list[Record]:
        return [each for each in records if each["type"] == kind]

    run = next(iter(of("run")), {})
    verdict = next(reversed(of("verdict")), None)
    said = verdict or {"text": "The run was cut short: its history ends without a verdict."}
    word = str(said.get("verdict") or "no verdict")
    text = f"{word.upper()}: {said.get('text', '')}"
    above = [*_wrapped(text, width, 2), *filter(None, [_about(run)])]
    below = _counts(said)
    sections = (
        _counterexample(of("violation"), width),
        _promises(of("promise"), width),
        _faults(said.get("faults") or {}, width),
    )
    some = [section for section in sections if section]
    room = MOST_LINES - len(above) - len(below) - len(some) - bool(below)
    lines = above
    for section in _fitted(some, room):
        lines += ["", *section]
    lines += ["", *below] if below else []
    return [_cut(line, width).rstrip() for line in lines]


def shortest(violations: Iterable[Record]) -> Record | None:
    """The counterexample that is read fastest: the fewest events, then the least time."""

    def length(violation: Record) -> tuple[float, float]:
        events = violation.get("events") or ()
        times = [each["at"] for each in events if each.get("at") is not None]
        return len(events) or float("inf"), max(times, default=0) - min(times, default=0)

    return min(violations, key=length, default=None)


def _about(run: Record) -> str:
    parts: list[tuple[str, Callable[[Any], str]]] = [
        ("url", without_password),
        ("primitive", str),
        ("ttl", lambda ttl: f"ttl {ttl:g} s"),
        ("seconds", lambda seconds: f"{seconds:g} s"),
        ("seed", lambda seed: f"seed {seed}"),
        ("version", lambda version: f"fencelock {version}"),
    ]
    return ", ".join(show(run[key]) for key, show in parts if run.get(key) is not None)


def _promises(promises: list[Record], width: int) -> list[str]:
    """Broken promises first: the end of the list may be left out."""
    order = ("broken", "not exercised", "held", "not promised")
    known = [each for each in promises if each.get("verdict") in order]
    promises = sorted(known, key=lambda each: order.index(each["verdict"]))
    cells = [
        (
            "BROKEN" if each["verdict"] == "broken" else str(each["verdict"]),
            _cut(_plain(each.get("title") or each.get("id")), width // 2),
            _plain(each.get("detail") or ""),
        )
        for each in promises
    ]
    first, second = (max((cell_len(row[n]) for row in cells), default=0) for n in (0, 1))
    return [
        f"{set_cell_size(word, first)}  {set_cell_size(title, second)}  {detail}"
        for word, title, detail in cells
    ]


def _faults(faults: dict[str, Record], width: int) -> list[str]:
    if not faults:
        return []
    titles = {kind: _plain(each.get("title") or kind) for kind, each in faults.items()}
    head = "faults, and what they hit"
    widths = [len(key) + 2 for key in _COUNTED]
    room = max(10, width - sum(widths))
    first = min(room, max(map(cell_len, [head, *titles.values()])))

    def row(title: str, cells: Iterable[object]) -> str:
        counts = "".join(f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        return set_cell_size(_cut(title, first), first) + counts

    return [
        row(head, _COUNTED),
        *(
            row(titles[kind], (each.get(key) or 0 for key in _COUNTED))
            for kind, each in faults.items()
        ),
    ]


def _counterexample(violations: list[Record], width: int) -> list[str]:
    found = shortest(violations)
    if found is None:
        return []
    others = f" (the shortest of {len(violations)} violations)" if violations[1:] else ""
    events = found.get("events") or []
    lines = [
        f"{each.get('at') or 0:>10.3f} s  {_cut(_plain(each.get('worker') or ''), 8):<8}"
        f"  {_plain(each.get('what') or '')}"
        for each in events
    ]
    return [*_wrapped(f"{found.get('text', '')}{others}", width, 2), *lines]


def _counts(verdict: Record) -> list[str]:
    def said(*parts: tuple[str, str]) -> str:
        return ", ".join(
            text.format(verdict[key]) for key, text in parts if verdict.get(key) is not None
        )

    writes = said(
        ("acknowledged", "{} acknowledged"),
        ("stored", "{} stored"),
        ("refused", "{} refused"),
        ("bare_lost", "{} lost without fences"),
    )
    leases = said(
        ("grants", "{}"),
        ("lost", "{} lost"),
        ("longest_idle", "longest time without progress {:.2f} s"),
        ("bound", "{:.2f} s allowed"),
    )
    return [f"writes: {writes}"] * bool(writes) + [f"leases: {leases}"] * bool(leases)


def _fitted(sections: list[list[str]], room: int) -> list[list[str]]:
    """As much of the sections as there is room for. Long ones give way; of two equals, the later one."""
    sizes = [len(section) for section in sections]
    while sum(sizes) > room:
        longest = max(range(len(sizes)), key=lambda n: (sizes[n], n))
        sizes[longest] -= 1
    return [_first(section, most) for section, most in zip(sections, sizes, strict=True)]


def _first(section: list[str], most: int) -> list[str]:
    if len(section) <= most:
        return section
    return [*section[: most - 1], f"… and {len(section) - most + 1} more in the report"]


def _wrapped(text: str, width: int, most: int) -> list[str]:
    lines = textwrap.wrap(_plain(text), width)
    if len(lines) > most:
        lines = [*lines[: most - 1], _cut(" ".join(lines[most - 1 :]), width)]
    return lines


def _cut(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1).rstrip() + "…"


def _plain(text: Any) -> str:
    """Text from elsewhere, without what could confuse a terminal."""
    return "".join(each if each.isprintable() else "?" for each in str(text)[:2_000])
