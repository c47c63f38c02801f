"""The OpenAPI document, with the scope and the limits of each call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from ..refusals import STATUS
from .gateway import API
from .models import Accepted, Act, Acted, ActedBatch, EndEpisode, ProblemDocument, Snapshot, Step, Steps
from .problems import MEDIA_TYPE
from .routes import ROUTES

_AGENT: Final = f"{API}/agents/{{name}}"
_REF: Final = "#/components/schemas/"
_NAME: Final = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
_KEY: Final = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Repeated with the same key, a request is not carried out again.",
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
"""Key of a call with the keys of `limits` that apply to it, beside those that apply to all."""


def described(app: FastAPI) -> dict[str, Any]:
    """The document of an application, including routes outside FastAPI."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        openapi_version="3.1.0",
        description=app.description,
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    models: list[Any] = [Accepted, Act, Acted, ActedBatch, EndEpisode, ProblemDocument, Snapshot, Step, Steps]
    _, schemas = models_json_schema([(one, "validation") for one in models], ref_template=_REF + "{model}")
    components["schemas"] = {**components.get("schemas", {}), **schemas.get("$defs", {})}
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    paths = document["paths"]
    paths[f"{_AGENT}/act"] = {"post": _act()}
    paths[f"{_AGENT}/step"] = {"post": _operation("Report a step.", Step, Accepted, [_NAME, _KEY])}
    paths[f"{_AGENT}/steps"] = {"post": _operation("Report up to 1,000 steps.", Steps, Accepted, [_NAME, _KEY])}
    end = _operation("An environment was reset without `done`.", EndEpisode, None, [_NAME, _KEY])
    end["requestBody"]["required"] = False
    paths[f"{_AGENT}/end_episode"] = {"post": end}
    for path, operations in paths.items():
        for method, operation in operations.items():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = _problem()
            route = ROUTES[path.removeprefix(API)][method.upper()]
            operation["security"] = [{"token": [route.scope]}] if route.scope else []
            operation[WHOLE_ACCOUNT] = route.is_whole
            operation[LIMITS] = route.limits
    return document


def _act() -> dict[str, Any]:
    operation = _operation("Ask for an action for an observation, or for several.", Act, None, [_NAME, _NOISE])
    bare = {"type": "array", "items": {}, "description": "One observation."}
    operation["requestBody"]["content"]["application/json"]["schema"] = {"anyOf": [bare, _ref(Act)]}
    operation["responses"]["200"]["content"] = {
        "application/json": {"schema": {"anyOf": [_ref(Acted), _ref(ActedBatch)]}}
    }
    return operation


def _operation(
    summary: str, body: type[BaseModel], answer: type[BaseModel] | None, parameters: list[Mapping[str, Any]]
) -> dict[str, Any]:
    schema = {"type": "object"} if answer is None else _ref(answer)
    return {
        "tags": ["acting"],
        "summary": summary,
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref(body)}}},
        "responses": {"200": {"description": "Done.", "content": {"application/json": {"schema": schema}}}},
    }


def _problem() -> dict[str, Any]:
    codes = ", ".join(f"{code} ({status})" for code, status in STATUS.items())
    return {
        "description": f"A problem; its code is one of {codes}.",
        "content": {MEDIA_TYPE: {"schema": _ref(ProblemDocument)}},
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF + model.__name__}
