"""The OpenAPI document is true: schemathesis finds no undocumented answer and no fault."""

from __future__ import annotations

from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from fencelock.service.app import Service
from tests.effort import effort
from tests.servers_service import Replica

CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]

PATIENT = {"wait": 50, "timeout": 3600}
"""How long requests may ask the service to wait at most. The tests don't wait that long."""


def test_every_route_is_described(replica: Replica) -> None:
    offered = {
        (route.method, route.resource.canonical)
        for route in Service("memory://").app.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }
    _, document = replica.get("/openapi.json")
    described = {(each.upper(), path) for path, ways in document["paths"].items() for each in ways}
    assert described == offered


@pytest.mark.parametrize("mode", GenerationMode, ids=lambda mode: mode.name.lower())
def test_nothing_is_answered_that_the_document_does_not_say(
    replica: Replica, mode: GenerationMode
) -> None:
    schema = schemathesis.openapi.from_url(f"{replica.url}/openapi.json")
    examples = effort(6, 300)
    with requests.Session() as session:
        for found in schema.get_all_operations():
            operation = found.ok()
            nothing = not operation.body and not list(operation.iter_parameters())
            if mode is GenerationMode.NEGATIVE and nothing:
                continue  # there is nothing that could be wrong

            @settings(
                max_examples=examples,
                deadline=None,
                database=None,
                derandomize=examples < 100,
                suppress_health_check=list(HealthCheck),
                phases=[Phase.generate],
            )
            @given(operation.as_strategy(mode))
            def ask(case: Any) -> None:
                if isinstance(case.body, dict):
                    for field, most in PATIENT.items():
                        given = case.body.get(field)
                        if isinstance(given, int | float) and 0.01 < given <= most:
                            case.body[field] = 0.01
                case.call_and_validate(base_url=replica.url, session=session, checks=CHECKS)

            ask()
