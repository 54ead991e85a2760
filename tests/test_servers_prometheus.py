"""The Prometheus that other tests rely on scrapes, answers and alerts."""

from pathlib import Path

import psutil
import pytest

from tests.servers_prometheus import PrometheusServer, Sample, exporting
from tests.waiting import eventually

RULES = """
groups:
  - name: tests
    rules:
      - { alert: Low, expr: apples < 3 }
      - { alert: LowForLong, expr: apples < 3, for: 1h }
"""


def test_it_scrapes_answers_and_alerts(tmp_path: Path) -> None:
    apples = 5
    rules = tmp_path / "rules.yml"
    rules.write_text(RULES)
    with (
        exporting(lambda: f'apples{{sort="red"}} {apples}\n') as target,
        PrometheusServer(tmp_path / "server", targets=[target], rules=[rules]) as server,
    ):
        labels = {"__name__": "apples", "instance": target, "job": "tests", "sort": "red"}
        eventually(lambda: server.query("apples") == [Sample(labels, 5.0)], "a scrape")
        assert server.value("apples * 2") == 10.0
        assert server.value("pears") is None
        assert server.query("3 * 4") == [Sample({}, 12.0)]
        assert server.alerts() == []

        apples = 2
        eventually(lambda: len(server.alerts()) == 2, "both alerts")
        alerts = server.alerts()
        assert {(alert.name, alert.firing) for alert in alerts} == {
            ("Low", True),
            ("LowForLong", False),
        }
        assert all(alert.labels["sort"] == "red" for alert in alerts)
        assert server.firing() == {"Low"}

        apples = 5
        eventually(lambda: server.alerts() == [], "the end of the alerts")


def test_a_wrong_expression_is_an_error(tmp_path: Path) -> None:
    with PrometheusServer(tmp_path) as server:
        with pytest.raises(ValueError, match="unclosed left parenthesis"):
            server.query("sum(")
        process = psutil.Process(server.pid)
    assert not process.is_running()
