"""The OpenAPI document of the service, made from the types that check its requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from fencelock.core.version import __version__
from fencelock.engines.http import wire
from fencelock.engines.http.wire import Problem
from fencelock.guards.http import HEADER, PREFIX
from fencelock.service import forms
from fencelock.service.health import Health
from fencelock.service.operations import EVERYWHERE, Operation
from fencelock.service.problems import TITLES

_ANY = dict[str, Any]
_TEXT = "text/plain"
_REF = "#/components/schemas/{name}"

_ACTS: tuple[type[wire.Act], ...] = (
    *(wire.Enter, wire.Renew, wire.Leave, wire.Park, wire.Evict),
    *(wire.Remember, wire.Recall, wire.Inspect, wire.Names),
)

OTHERS = [
    *(
        Operation(
            "POST",
            f"/v1/{each.__name__.lower()}",
            (each.__doc__ or "").partition(".")[0],
            each,
            {200: wire.Answer},
            problems=("held", "stale-fence", "unsafe-engine", "not-json"),
        )
        for each in _ACTS
    ),
    Operation("GET", "/v1/info", "The version, and the engine's traits", None, {200: wire.Hello}),
    Operation("GET", wire.PATH, "The line of a client of the library", None, {101: None}),
    Operation("GET", "/livez", "Whether the process runs", None, {200: _TEXT}),
    Operation(
        "GET", "/readyz", "Whether the replica takes requests", None, {200: _TEXT, 503: _TEXT}
    ),
    Operation("GET", "/v1/health", "The state of the replica and its engine", None, {200: Health}),
    Operation("GET", "/v1/events", "What happens, as it happens", None, {200: "text/event-stream"}),
    Operation("GET", "/metrics", "For Prometheus", None, {200: _TEXT}),
    Operation("GET", "/openapi.json", "This document", None, {200: _ANY}),
]
"""What other files of the service offer."""


def document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document for these operations."""
    operations = list(operations)
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _described(each, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Fencelock",
            "summary": "Distributed locks with fences",
            "version": __version__,
        },
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


class _Schemas:
    """The JSON schemas of all types."""

    def __init__(self, operations: list[Operation]) -> None:
        found: list[Any] = [Problem]
        for each in operations:
            found += [each.form, *each.answers.values()]
        types = [
            shape
            for shape in dict.fromkeys(found)
            if shape is not None and not isinstance(shape, str)
        ]
        references, self.components = msgspec.json.schema_components(types, ref_template=_REF)
        self._references = dict(zip(types, references, strict=True))
        for act in _ACTS:  # in a request of its own, the path says which act it is
            self.components[self.name(act)]["properties"].pop("op")
            self.components[self.name(act)]["required"].remove("op")

    def of(self, shape: Any) -> dict[str, Any]:
        """Where the schema of a type is."""
        found: dict[str, Any] = self._references[shape]
        return found

    def name(self, shape: Any) -> str:
        return str(self.of(shape)["$ref"].rpartition("/")[2])


def _described(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": list(_parameters(operation, schemas)),
        "responses": _responses(operation, schemas),
    }
    if operation.method == "POST":
        content = {"application/json": {"schema": schemas.of(operation.form)}}
        described["requestBody"] = {"required": True, "content": content}
    return described


def _parameters(operation: Operation, schemas: _Schemas) -> Iterable[dict[str, Any]]:
    if "{name}" in operation.path:
        about = "The lock's name, percent-encoded: also a `/`"
        yield _parameter("name", "path", _schema(wire.Name), about, required=True)
    if operation.key:
        about = "Names your ticket: random, at least 16 characters, the same until the release"
        required = operation.key == "required"
        yield _parameter(forms.KEY, "header", _schema(forms.Key), about, required=required)
    if operation.method != "POST" and operation.form is not None:
        form = schemas.components[schemas.name(operation.form)]
        for field, schema in form["properties"].items():
            required = field in form.get("required", ())
            yield _parameter(field, "query", schema, "", required=required)


def _parameter(
    name: str, place: str, schema: dict[str, Any], about: str, *, required: bool
) -> dict[str, Any]:
    described = {"name": name, "in": place, "required": required, "schema": schema}
    return {**described, "description": about} if about else described


def _schema(shape: Any) -> dict[str, Any]:
    return msgspec.json.schema(shape)


def _responses(operation: Operation, schemas: _Schemas) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status, shape in operation.answers.items():
        is_struct = isinstance(shape, type) and issubclass(shape, msgspec.Struct)
        about = (shape.__doc__ or "").partition("\n")[0] if is_struct else ""
        response = responses[str(status)] = _response(about)
        if isinstance(shape, str):
            response["content"][shape] = {"schema": {"type": "string"}}
        elif shape is not None:
            response["content"]["application/json"] = {"schema": schemas.of(shape)}
        if shape is forms.Held:
            told = "For guards: the name, the fence, and a digest of the holder"
            response["headers"] = {HEADER: {"description": told, "schema": {"type": "string"}}}
    for kind in (*EVERYWHERE, *operation.problems):
        code, title = TITLES[kind]
        response = responses.setdefault(str(code), _response(""))
        response["content"]["application/problem+json"] = {"schema": schemas.of(Problem)}
        told = f"`{PREFIX}{kind}`: {title}"
        response["description"] = "\n".join(filter(None, (response["description"], told)))
    return responses


def _response(about: str) -> dict[str, Any]:
    return {"description": about, "content": {}}
