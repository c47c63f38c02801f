"""The application: typed routes of FastAPI behind the edge."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException

from ...core.errors import ArgumentError
from ..hosting.values import place
from ..refusals import RefusedError
from . import reference
from .calls import KEY
from .edge import Edge
from .gateway import API, Gateway
from .http_messages import Page
from .openapi import described
from .problems import MEDIA_TYPE, document, not_found, of_error
from .routes import DECLARED


def application(gateway: Gateway, page: Page | None = None) -> Edge:
    """The ASGI application of a service.

    Args:
        gateway: shared by all routes.
        page: the web page, for other paths outside the interface.
    """
    return Edge(gateway, typed(docs=gateway.settings.http.docs), page)


def typed(*, docs: bool = False) -> FastAPI:
    """The typed routes, which find the gateway in each request; ``docs``: with a reference page."""
    app = FastAPI(
        title="axonrl",
        version="1",
        description="Agents over HTTP. Errors are `application/problem+json`.",
        openapi_url=f"{API}/openapi.json",
        docs_url=None,  # FastAPI's own page loads scripts from elsewhere
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        redirect_slashes=False,
        strict_content_type=False,
        exception_handlers={
            RefusedError: _of_error,
            ArgumentError: _of_error,
            RequestValidationError: _of_validation,
            HTTPException: _of_http,
        },
    )
    for routes in DECLARED:
        app.include_router(routes.router)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = described(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
    if docs:
        headers = {"Content-Security-Policy": reference.POLICY}

        @app.get(f"{API}/docs", include_in_schema=False)
        async def shown() -> HTMLResponse:
            return HTMLResponse(reference.page(app.openapi()), headers=headers)

    return app


def _answer(request: Request, problem: RefusedError) -> Response:
    body = document(problem, request.scope[KEY].by.request_id)
    return Response(body, problem.status, problem.headers, MEDIA_TYPE)


async def _of_error(request: Request, error: Exception) -> Response:
    return _answer(request, of_error(error) or RefusedError("internal", ""))


async def _of_http(request: Request, error: Exception) -> Response:
    status, detail = (error.status_code, str(error.detail)) if isinstance(error, HTTPException) else (500, "")
    if status == 404:
        return _answer(request, not_found("the path"))
    return _answer(request, RefusedError("invalid_request" if status < 500 else "internal", detail))


async def _of_validation(request: Request, error: Exception) -> Response:
    found = error.errors() if isinstance(error, RequestValidationError) else []
    inside = [one["loc"][1:] if one["loc"][0] == "body" and len(one["loc"]) > 1 else one["loc"] for one in found[:20]]
    errors = [(place(loc)[:200], _what(one)) for loc, one in zip(inside, found, strict=False)]
    where, what = errors[0] if errors else ("body", "is invalid")
    return _answer(request, RefusedError("invalid_value", f"{where}: {what}", errors=errors))


def _what(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return "unknown field"
    return "is missing" if error["type"] == "missing" else str(error["msg"])
