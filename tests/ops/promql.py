"""What a PromQL expression mentions: metrics, labels and their values."""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.ops.exported import exported

_SELECTOR = re.compile(r"\b(fencelock[_:][\w:]+)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r'(\w+)\s*(=~|!~|=|!=)\s*"([^"]*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


class Selector(NamedTuple):
    metric: str
    labels: dict[str, list[str]]
    """The labels, each with the values that are spelled out; a variable of a dashboard is none."""


def selectors(expression: str) -> list[Selector]:
    return [
        Selector(
            metric,
            {
                label: [value for value in text.split("|") if not value.startswith("$")]
                for label, _, text in _MATCHER.findall(matchers)
            },
        )
        for metric, matchers in _SELECTOR.findall(expression)
    ]


def grouping(expression: str) -> set[str]:
    """The labels by which an expression groups or matches series."""
    lists = ",".join(_GROUPING.findall(expression))
    return {label.strip() for label in lists.split(",")} - {""}


def exported_labels(selector: Selector) -> set[str]:
    """The labels of a metric that we export. Fails if we don't, or not with these labels and values."""
    found = [labels for name, labels in exported() if name == selector.metric]
    assert found, f"no series is called {selector.metric}"
    for label, values in selector.labels.items():
        assert label in found[0], f"{selector.metric} has no label {label}"
        assert set(values) <= {labels[label] for labels in found}, f"{selector.metric}: {label}"
    return set(found[0])
