"""The alerts: each fires and stays silent when it should, has a runbook, and uses metrics that exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ops.files import OBJECTIVES, PAGES, ROOT, RULES, UNIT_TESTS
from tests.ops.promql import exported_labels, grouping, selectors


def rules_of(path: Path) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]]


EVERY = rules_of(RULES) + rules_of(OBJECTIVES)
ALERTS = {rule["alert"]: rule for rule in EVERY if "alert" in rule}
RECORDED = {rule["record"]: rule for rule in EVERY if "record" in rule}
TESTS = yaml.safe_load(UNIT_TESTS.read_text())["tests"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNBOOKS = f"{PROJECT['urls']['Repository']}/blob/main/docs/observing/runbooks/"
SECTIONS = ["What it means", "What to look at first", "What to do", "What it is not"]

each_alert = pytest.mark.parametrize("name", ALERTS)


def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", RULES, OBJECTIVES)


def test_promtool_runs_the_unit_tests() -> None:
    promtool("test", "rules", UNIT_TESTS)


def promtool(*words: Any) -> None:
    done = subprocess.run(["promtool", *words], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@each_alert
def test_an_alert_has_all_that_people_need(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("page", "warn")
    assert set(alert["annotations"]) == {"summary", "description", "runbook_url"}
    assert alert["annotations"]["runbook_url"] == f"{RUNBOOKS}{name}.md"


@each_alert
def test_an_alert_has_a_runbook(name: str) -> None:
    page = (PAGES / "runbooks" / f"{name}.md").read_text()
    assert page.startswith(f"# {name}\n")
    assert f"**{ALERTS[name]['labels']['severity']}**" in page
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == SECTIONS
    assert f"[{name}](runbooks/{name}.md)" in (PAGES / "alerts.md").read_text()


def test_every_runbook_has_an_alert() -> None:
    assert {page.stem for page in (PAGES / "runbooks").glob("*.md")} == set(ALERTS)


def test_the_unit_tests_are_about_alerts_that_exist() -> None:
    """promtool does not notice: an alert that does not exist is silent."""
    assert {each["alertname"] for test in TESTS for each in test["alert_rule_test"]} == set(ALERTS)


@each_alert
def test_an_alert_fires_and_is_silent_in_unit_tests(name: str) -> None:
    needed = metrics_behind(ALERTS[name]["expr"])
    fires = silent = False
    for test in TESTS:
        given = {
            found.metric for each in test["input_series"] for found in selectors(each["series"])
        }
        if needed <= given:  # without its metrics it would be silent in any case
            checks = [each for each in test["alert_rule_test"] if each["alertname"] == name]
            fires |= any(each.get("exp_alerts") for each in checks)
            silent |= any(not each.get("exp_alerts") for each in checks)
    assert fires
    assert silent


def metrics_behind(expression: str) -> set[str]:
    """The metrics of an expression, also through recorded rules. Objectives have none."""
    found: set[str] = set()
    for metric, _ in selectors(expression):
        rule = RECORDED.get(metric)
        found |= metrics_behind(rule["expr"]) if rule else {metric}
    return found


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_uses_what_is_exported(rule: dict[str, Any]) -> None:
    known = {"job", "instance"}
    for selector in selectors(rule["expr"]):
        recorded = RECORDED.get(selector.metric)
        if recorded:
            known |= grouping(recorded["expr"]) | set(recorded.get("labels", {}))
        else:
            known |= exported_labels(selector)
    assert grouping(rule["expr"]) <= known
