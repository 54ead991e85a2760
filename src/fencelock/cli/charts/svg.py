"""The parts of a chart: shapes and text as SVG, a scale, colours for light and for dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

LIGHT = {
    "card": "#ffffff",
    "ink": "#1f2328",
    "faint": "#59636e",
    "grid": "#d8dee4",
    "limit": "#1f2328",
    "ours": "#0a7d5a",
    "c0": "#c2500b",
    "c1": "#0969da",
    "c2": "#8250df",
    "c3": "#bf3989",
    "c4": "#8a6100",
    "c5": "#6e7781",
}
DARK = {
    "card": "#0d1117",
    "ink": "#f0f6fc",
    "faint": "#9198a1",
    "grid": "#30363d",
    "limit": "#f0f6fc",
    "ours": "#3fd19e",
    "c0": "#f0883e",
    "c1": "#58a6ff",
    "c2": "#b392f0",
    "c3": "#f778ba",
    "c4": "#d4a72c",
    "c5": "#9198a1",
}
RIVALS = [name for name in LIGHT if name[1:].isdigit()]


def document(width: float, height: float, parts: Iterable[str], *, theme: str = "") -> str:
    """A whole picture. By default it follows the reader's light or dark theme."""
    rules = {"light": _rules(LIGHT), "dark": _rules(DARK)}.get(
        theme,
        f"{_rules(LIGHT)}\n@media (prefers-color-scheme: dark) {{\n{_rules(DARK)}\n}}",
    )
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<style>\n{_FONTS}\n{rules}\n</style>",
            f'<rect class="f-card" width="{width:g}" height="{height:g}" rx="6"/>',
            *parts,
            "</svg>\n",
        )
    )


_FONTS = (
    'text { font-family: system-ui, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 13px }\n'
    ".title { font-size: 16px; font-weight: 600 }"
)


def _rules(colours: dict[str, str]) -> str:
    return "\n".join(
        f".f-{name} {{ fill: {colour} }} .s-{name} {{ stroke: {colour} }}"
        for name, colour in colours.items()
    )


def text(
    x: float, y: float, words: str, colour: str = "ink", anchor: str = "start", more: str = ""
) -> str:
    title = " title" if more == "title" else ""
    turned = f' transform="rotate(-90 {x:g} {y:g})"' if more == "upright" else ""
    return (
        f'<text class="f-{colour}{title}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{turned}>'
        f"{escape(words)}</text>"
    )


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1, dashes: str = ""
) -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line class="s-{colour}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke-width="{width:g}"{dashed}/>'
    )


def path(points: Sequence[tuple[float, float]], colour: str, width: float, dashes: str = "") -> str:
    where = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<polyline class="s-{colour}" points="{where}" fill="none" stroke-width="{width:g}" '
        f'stroke-linejoin="round"{dashed}/>'
    )


def dot(x: float, y: float, colour: str, radius: float = 3.5) -> str:
    return f'<circle class="f-{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return (
        f'<rect class="f-{colour}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 1):.1f}" '
        f'height="{height:g}" rx="2"/>'
    )


class Scale:
    """Maps values to places. It may be logarithmic, if the largest value would hide the smallest."""

    def __init__(
        self, values: Sequence[float], start: float, end: float, *, may_bend: bool = True
    ) -> None:
        least, most = min(values), max(values)
        self.logarithmic = may_bend and most > 20 * least > 0
        self._start, self._end = start, end
        if self.logarithmic:
            self._low = math.floor(math.log10(least) + 1e-9)
            self._high: float = math.log10(most * 1.15)
        else:
            self._low, self._high = 0, most * 1.08 or 1

    def __call__(self, value: float) -> float:
        at = math.log10(value) if self.logarithmic else value
        return self._start + (at - self._low) / (self._high - self._low) * (self._end - self._start)

    def ticks(self) -> list[float]:
        """Round values at which to draw a line."""
        if self.logarithmic:
            steps = (1, 2, 5) if self._high - self._low < 2.5 else (1,)
            every = [
                step * 10.0**power
                for power in range(int(self._low), math.ceil(self._high) + 1)
                for step in steps
            ]
            return [tick for tick in every if math.log10(tick) <= self._high]
        step = 10.0 ** math.floor(math.log10(self._high / 2))
        step *= next(size for size in (1, 2, 5, 10) if self._high / (step * size) <= 6)
        return [step * n for n in range(int(self._high / step) + 1)]
