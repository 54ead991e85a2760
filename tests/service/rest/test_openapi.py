"""The OpenAPI document is true: schemathesis finds no undocumented answer and no fault."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings

from fencelock.service.app import Service
from fencelock.service.settings import Settings
from tests.effort import effort
from tests.servers_service import Replica

LONGEST = {"wait": 50, "timeout": 3600}
"""How long a request may ask the service to wait. The tests don't wait that long."""


def test_every_route_is_described(replica: Replica) -> None:
    offered = {
        (route.method, route.resource.canonical)
        for route in Service(Settings(engine="memory://")).app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    # The files of the page are no part of the API.
    offered = {
        (way, path) for way, path in offered if path != "/" and not path.startswith("/page/")
    }
    _, document = replica.get("/openapi.json")
    described = {(each.upper(), path) for path, ways in document["paths"].items() for each in ways}
    assert described == offered


@pytest.mark.parametrize("mode", ["positive", "negative"])
def test_nothing_is_answered_that_the_document_does_not_say(replica: Replica, mode: str) -> None:
    """`negative`: each request has something wrong in it, and none is accepted."""
    # Here, because only one worker needs it, and it takes a while.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    wanted: list[Any] = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
        checks.negative_data_rejection,
    ]
    examples: Any = settings(
        max_examples=effort(6, 100),
        deadline=None,
        database=None,
        derandomize=effort(True, False),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    refused = {"negative_data_rejection": {"expected-statuses": ["4xx"]}}
    config = schemathesis.Config.from_dict({"checks": refused})
    schema = schemathesis.openapi.from_url(f"{replica.url}/openapi.json", config=config)
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation: Any = found.ok()  # type: ignore[union-attr] # all of them are fine
            if operation.path in ("/v1/events", "/v1/live"):
                continue  # they never end
            if mode == "negative" and not operation.body and not list(operation.iter_parameters()):
                continue  # there is nothing that could be wrong

            def ask(case: Any) -> None:
                _hasten(case.body)
                case.call_and_validate(base_url=replica.url, session=session, checks=wanted)

            some_cases: Any = given(operation.as_strategy(schemathesis.GenerationMode(mode)))
            examples(some_cases(ask))()


def _hasten(body: Any) -> None:
    """Shorten the waits that are allowed. Those that are too long stay, and must be refused."""
    for field, longest in LONGEST.items():
        asked = body.get(field) if isinstance(body, dict) else None
        if isinstance(asked, int | float) and 0.01 < asked <= longest:
            body[field] = 0.01
