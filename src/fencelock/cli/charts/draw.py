"""Bars for one comparison, curves for several."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fencelock.cli.charts.svg import (
    RIVALS,
    Scale,
    bar,
    document,
    dot,
    line,
    path,
    text,
)

WIDTH = 820
LIMIT = "limit: "

Curves = Mapping[str, Mapping[float, float]]
"""By contestant, a value for each place on the horizontal axis. The first contestant is ours."""


def is_limit(label: str) -> bool:
    return label.startswith(LIMIT)


def draw_bars(
    title: str, axis: str, values: Mapping[str, float], *, best: str, theme: str = ""
) -> str:
    """One bar per contestant, the best on top. The limit is a line through all bars."""
    ours = next(iter(values))
    known = {label: value for label, value in values.items() if 0 < value < math.inf}
    order = sorted(known, key=lambda label: known[label], reverse=best == "higher")
    left, right, top, pitch = 280, WIDTH - 80, 66, 30
    bottom = top + pitch * len(order)
    scale = Scale(list(known.values()), left, right, may_bend=False)  # a bar's length is its value
    parts = [text(16, 28, title, more="title"), text(left, 52, _said(axis, best, scale), "faint")]
    for tick in scale.ticks():
        parts.append(line(scale(tick), top - 6, scale(tick), bottom, "grid"))
        parts.append(text(scale(tick), bottom + 16, figure(tick), "faint", "middle"))
    for number, label in enumerate(order):
        y, end = top + pitch * number, scale(known[label])
        colour = "limit" if is_limit(label) else "ours" if label.startswith(ours) else "c5"
        parts.append(text(left - 10, y + 17, label, "ink", "end"))
        parts.append(bar(left, y + 3, end - left, pitch - 10, colour))
        parts.append(text(end + 8, y + 17, figure(known[label])))
    for label in filter(is_limit, order):
        parts.append(
            line(scale(known[label]), top - 6, scale(known[label]), bottom, "limit", 1, "5 4")
        )
    return document(WIDTH, bottom + 30, parts, theme=theme)


def draw_curves(
    title: str, below: str, axis: str, curves: Curves, *, best: str, theme: str = ""
) -> str:
    """One line per contestant, with its name at the end. Limits are dashed."""
    ours = next(iter(curves))
    places = sorted({place for curve in curves.values() for place in curve})
    known = {
        label: {place: value for place, value in curve.items() if 0 < value < math.inf}
        for label, curve in curves.items()
    }
    known = {label: curve for label, curve in known.items() if curve}
    left, right, top, bottom = 86, WIDTH - 250, 66, 380
    scale = Scale([value for curve in known.values() for value in curve.values()], bottom, top)
    apart = (right - left - 40) / max(1, len(places) - 1)
    across = {place: left + 20 + apart * number for number, place in enumerate(places)}
    parts = [text(16, 28, title, more="title"), text(left, 52, _said(axis, best, scale), "faint")]
    for tick in scale.ticks():
        parts.append(line(left, scale(tick), right, scale(tick), "grid"))
        parts.append(text(left - 8, scale(tick) + 4, figure(tick), "faint", "end"))
    for place, x in across.items():
        parts.append(line(x, bottom, x, bottom + 5, "faint"))
        parts.append(text(x, bottom + 20, f"{place:,g}", "faint", "middle"))
    parts.append(text((left + right) / 2, bottom + 42, below, "faint", "middle"))
    rivals = [label for label in known if not is_limit(label) and not label.startswith(ours)]
    ends: dict[str, float] = {}
    for label, curve in known.items():
        colour = _colour(label, ours, rivals)
        points = [(across[place], scale(curve[place])) for place in sorted(curve)]
        parts.append(path(points, colour, 3 if label == ours else 1.8, _dashes(label)))
        parts += [dot(x, y, colour) for x, y in points]
        ends[label] = points[-1][1]
    for label, y in spread(ends, 17).items():
        x = across[max(known[label])]
        colour = _colour(label, ours, rivals)
        parts.append(line(x + 6, ends[label], right + 8, y, colour, 0.7))
        parts.append(text(right + 12, y + 4, label, colour))
    return document(WIDTH, bottom + 58, parts, theme=theme)


def figure(value: float) -> str:
    """A number with three digits, without trailing zeros."""
    if math.isinf(value):
        return "∞"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.3g}'):g}"


def spread(wanted: Mapping[str, float], apart: float) -> dict[str, float]:
    """Places as close as possible to the wanted ones, with enough distance between neighbours."""
    order = sorted(wanted, key=lambda label: wanted[label])
    placed: dict[str, float] = {}
    last = -math.inf
    for label in order:
        placed[label] = last = max(wanted[label], last + apart)
    # Names were only moved down. Move all of them up by half of the largest shift, so that they share it.
    drift = max((placed[label] - wanted[label] for label in order), default=0) / 2
    return {label: place - drift for label, place in placed.items()}


def _said(axis: str, best: str, scale: Scale) -> str:
    kind = ", logarithmic" if scale.logarithmic else ""
    return f"{axis} ({best} is better{kind})"


def _colour(label: str, ours: str, rivals: Sequence[str]) -> str:
    if is_limit(label):
        return "limit"
    return "ours" if label.startswith(ours) else RIVALS[rivals.index(label) % len(RIVALS)]


def _dashes(label: str) -> str:
    return "6 4" if is_limit(label) else ""
