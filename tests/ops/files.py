"""The files in ops/, and their pages in the documentation."""

from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
RULES = ROOT / "ops" / "prometheus" / "fencelock.rules.yml"
OBJECTIVES = ROOT / "ops" / "prometheus" / "fencelock.objectives.yml"
UNIT_TESTS = ROOT / "ops" / "prometheus" / "fencelock.rules.test.yml"
DASHBOARD = ROOT / "ops" / "grafana" / "fencelock.json"
PAGES = ROOT / "docs" / "observing"
