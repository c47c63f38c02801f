"""The OpenAPI document, with the scope and the limits of each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import TypeAdapter

from ..refusals import STATUS
from .declaration import PLACEHOLDER, Route
from .models import ProblemDocument
from .problems import MEDIA_TYPE

_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A request that is repeated with the same key is not executed again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_NOISE: Final = {
    "name": "noise",
    "in": "query",
    "required": False,
    "schema": {"type": "number", "minimum": 0, "maximum": 1, "default": 0},
}
WHOLE_ACCOUNT: Final = "x-whole-account"
"""Key of a call that refuses tokens for some agents only."""
LIMITS: Final = "x-limits"
"""Key of a call with the keys of `limits` that apply to it, besides those that apply to all."""


def openapi_document(routes: Mapping[str, Mapping[str, Route]]) -> dict[str, Any]:
    """The document of the routes that have a tag, by path and method."""
    shown = [route for methods in routes.values() for route in methods.values() if route.tag]
    types = [ProblemDocument, *(one for route in shown for one in (route.takes, route.answers) if one is not None)]
    schemas, definitions = TypeAdapter.json_schemas(
        [(k, "validation", TypeAdapter(one)) for k, one in enumerate(types)],
        ref_template="#/components/schemas/{model}",
    )
    found = iter(schemas[k, "validation"] for k in range(len(types)))
    problem = _problem(next(found))
    paths: dict[str, Any] = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, found, problem)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "axonrl",
            "version": "1",
            "description": "Agents over HTTP. Errors are `application/problem+json`.",
        },
        "paths": paths,
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route, schemas: Iterator[Any], problem: Mapping[str, Any]) -> dict[str, Any]:
    """A call; takes the schemas of its body and its answer from those of all."""
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "operationId": route.function.__name__,  # type: ignore[union-attr] # it is complete
        "summary": " ".join((route.function.__doc__ or "").split()),
        "parameters": list(_parameters(route)),
        "security": [{"token": [route.scope]}] if route.scope else [],
        WHOLE_ACCOUNT: route.is_whole,
        LIMITS: route.limits,
    }
    if route.body is not None:
        schema = next(schemas)
        content = {one.decode(): {"schema": schema} for one in route.body.types[:1]}
        operation["requestBody"] = {"required": route.body.required, "content": content}
    answer: dict[str, Any] = {"description": "Done."}
    if route.answers is not None:
        answer["content"] = {route.type.decode(): {"schema": next(schemas)}}
    operation["responses"] = {str(route.status): answer, "default": problem}
    return operation


def _parameters(route: Route) -> Iterator[Mapping[str, Any]]:
    for name in PLACEHOLDER.findall(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    if route.query is not None:
        for name, schema in route.query.model_json_schema()["properties"].items():
            yield {"name": name, "in": "query", "required": False, "schema": schema}
    if route.scope == "act":
        yield _NOISE
    elif route.has_key:
        yield _KEY


def _problem(schema: Any) -> dict[str, Any]:
    codes = ", ".join(f"{code} ({status})" for code, status in STATUS.items())
    description = f"A problem; its code is one of {codes}."
    return {"description": description, "content": {MEDIA_TYPE: {"schema": schema}}}
