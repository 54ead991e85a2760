"""A real Prometheus understands every query of the rules, the dashboard and the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path

from tests.ops.exported import exported
from tests.ops.files import OBJECTIVES, PAGES, RULES
from tests.ops.promql import exported_labels, selectors
from tests.ops.test_dashboard import PANELS
from tests.ops.test_rules import RECORDED
from tests.servers_prometheus import PrometheusServer, exporting
from tests.waiting import eventually

GRAFANA = {"$engine": ".*", "$group": ".*", "$__rate_interval": "10s", "$__range": "1h"}
"""The variables, as Grafana fills them in if everything is selected."""


def test_every_query(tmp_path: Path) -> None:
    scrapes, grown = count(), [str(series) for series in exported()]

    def text() -> str:
        value = next(scrapes)
        return "".join(f"{series} {value}\n" for series in grown)

    with (
        exporting(text) as target,
        PrometheusServer(tmp_path, targets=[target], rules=[OBJECTIVES, RULES]) as server,
    ):
        for query in (*RECORDED, *of_the_dashboard()):
            eventually(partial(server.query, query), f"a series of {query}")
        for query in of_the_pages():
            server.query(query)  # many look for trouble, so they find nothing


def of_the_dashboard() -> Iterator[str]:
    for panel in PANELS:
        for target in panel["targets"]:
            query: str = target["expr"]
            for variable, value in GRAFANA.items():
                query = query.replace(variable, value)
            yield query


def of_the_pages() -> Iterator[str]:
    for page in sorted(PAGES.rglob("*.md")):
        for block in re.findall(
            r"^```promql\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            yield from block.strip().split("\n\n")


def test_the_pages_use_what_is_exported() -> None:
    queries = list(of_the_pages())
    assert queries
    for query in queries:
        for selector in selectors(query):
            if selector.metric not in RECORDED:
                exported_labels(selector)  # fails if it is not exported
