"""Prometheus for tests: private, in a temporary folder, on a free loopback port, stopped by pid."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.servers import HOST, Server


class Sample(NamedTuple):
    """One series of an answer, at the moment of the question."""

    labels: dict[str, str]
    value: float


class Alert(NamedTuple):
    name: str
    firing: bool
    """False while the alert only waits for its `for` to pass."""
    labels: dict[str, str]


class PrometheusServer(Server):
    """A Prometheus that scrapes these targets (`host:port`) and evaluates these files of rules."""

    def __init__(
        self,
        folder: Path,
        *,
        targets: Iterable[str] = (),
        rules: Iterable[Path] = (),
        interval_ms: int = 500,
    ) -> None:
        super().__init__(folder)
        self._configuration = {
            "global": {
                "scrape_interval": f"{interval_ms}ms",
                "scrape_timeout": f"{interval_ms}ms",
                "evaluation_interval": "1s",
            },
            "rule_files": [str(path.resolve()) for path in rules],
            "scrape_configs": [
                {"job_name": "tests", "static_configs": [{"targets": list(targets)}]}
            ],
        }

    def command(self) -> list[str]:
        path = self.folder / "prometheus.yml"
        path.write_text(json.dumps(self._configuration))  # JSON is YAML, too
        return [
            "prometheus",
            f"--config.file={path}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={HOST}:{self.port}",
            "--log.level=warn",
        ]

    def ready(self) -> bool:
        try:
            # The folder shows whether our server or another one has the port.
            return bool(self._ask("status/runtimeinfo")["CWD"] == os.path.realpath(self.folder))
        except (OSError, ValueError):  # it does not listen yet, or answers that it is not ready
            return False

    def query(self, promql: str) -> list[Sample]:
        """The series of an expression, now. A scalar has no labels."""
        found = self._ask("query", query=promql)
        if found["resultType"] == "scalar":
            return [Sample({}, float(found["result"][1]))]
        return [Sample(each["metric"], float(each["value"][1])) for each in found["result"]]

    def value(self, promql: str) -> float | None:
        """The value of an expression that has one series; None if it has none yet."""
        found = self.query(promql)
        assert len(found) <= 1, f"{promql} has more than one series: {found}"
        return found[0].value if found else None

    def alerts(self) -> list[Alert]:
        """The alerts that fire, and those that wait for their `for` to pass."""
        return [
            Alert(each["labels"]["alertname"], each["state"] == "firing", each["labels"])
            for each in self._ask("alerts")["alerts"]
        ]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {alert.name for alert in self.alerts() if alert.firing}

    def _ask(self, what: str, **parameters: str) -> Any:
        connection = HTTPConnection(HOST, self.port, timeout=10)
        try:
            connection.request("GET", f"/api/v1/{what}?{urlencode(parameters)}")
            answer = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        return answer["data"]


@contextmanager
def exporting(text: Callable[[], str]) -> Iterator[str]:
    """Serve what `text` returns at each scrape. Yields the target for a Prometheus."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the default writes to stderr."""

    with ThreadingHTTPServer((HOST, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"{HOST}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
