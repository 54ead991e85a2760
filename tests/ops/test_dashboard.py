"""The dashboard: Grafana knows all its fields, panels don't overlap, and they use metrics that exist."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.ops.files import DASHBOARD, PAGES
from tests.ops.promql import exported_labels, grouping, selectors

MODEL: dict[str, Any] = json.loads(DASHBOARD.read_text())
PANELS: list[dict[str, Any]] = [panel for panel in MODEL["panels"] if panel["type"] != "row"]

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def test_grafana_knows_every_field() -> None:
    """Grafana's own model drops fields that it does not know, and adds those that have a default."""
    register_default_plugins()
    assert_within(MODEL, json.loads(JSONEncoder().encode(Dashboard.from_json(MODEL))), "dashboard")


def assert_within(ours: Any, theirs: Any, where: str) -> None:
    if isinstance(ours, dict):
        assert ours.keys() <= theirs.keys(), where
        for key, value in ours.items():
            assert_within(value, theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), where
        for number, (our, their) in enumerate(zip(ours, theirs, strict=True)):
            assert_within(our, their, f"{where}[{number}]")
    else:
        assert ours == theirs, where


def test_panels_have_their_own_place_and_number() -> None:
    cells = [set(cells_of(panel["gridPos"])) for panel in MODEL["panels"]]
    assert not any(one & other for one, other in combinations(cells, 2))
    assert all(0 <= x < 24 for each in cells for x, _ in each)
    numbers = [panel["id"] for panel in MODEL["panels"]]
    assert len(set(numbers)) == len(numbers)


def cells_of(place: dict[str, int]) -> list[tuple[int, int]]:
    return [
        (x, y)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]


@each_panel
def test_a_panel_explains_itself(panel: dict[str, Any]) -> None:
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"] in ("s", "ops", "short", "percentunit")
    for source in (panel, *panel["targets"]):
        assert source["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    for runbook in re.findall(r"Runbook: (\w+)\.", panel["description"]):
        assert (PAGES / "runbooks" / f"{runbook}.md").exists()


@each_panel
def test_a_panel_uses_what_is_exported_and_the_variables(panel: dict[str, Any]) -> None:
    for target in panel["targets"]:
        expression = target["expr"]
        known = {"instance"}
        for selector in selectors(expression):
            labels = exported_labels(selector)
            known |= labels
            assert selector.labels.keys() >= {"engine", "group"} & labels, "heeds not all variables"
        assert grouping(expression) <= known
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= grouping(expression)


def test_the_variables() -> None:
    source, *variables = MODEL["templating"]["list"]
    assert (source["name"], source["query"]) == ("datasource", "prometheus")
    assert [each["name"] for each in variables] == ["engine", "group"]
    for each in variables:
        (selector,) = selectors(each["query"])
        assert each["query"].endswith(f", {each['name']})")
        assert each["name"] in exported_labels(selector)
