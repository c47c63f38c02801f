"""The routes of the service, as their modules declare them."""

from __future__ import annotations

import functools
import re
from typing import Any, Final

from pydantic_core import to_json

from ..refusals import RefusedError
from . import acting, administration, agents, health, page, reference, states, users
from .declaration import PLACEHOLDER, Route, Routes
from .http_messages import Reply, Request
from .openapi import openapi_document
from .problems import not_found


class Table:
    """Routes by path and method.

    Args:
        declared: the routes.
    """

    def __init__(self, *declared: Routes) -> None:
        self.routes: dict[str, dict[str, Route]] = {}
        for route in (one for routes in declared for one in routes.declared):
            self.routes.setdefault(route.path, {})[route.method] = route
        self.public = {path for path in self.routes if not all(one.scope for one in self.routes[path].values())}
        """Paths that need no token."""
        self._patterns = [
            (re.compile(PLACEHOLDER.sub(r"(?P<\1>[^/]+)", path)), methods) for path, methods in self.routes.items()
        ]

    def find(self, request: Request) -> Route:
        """The route of a request, which gets its path and what it has in place of the placeholders.

        Raises:
            RefusedError: there is no such route, or not with this method.
        """
        allowed = list[str]()
        method = "GET" if request.method == "HEAD" else request.method
        for pattern, methods in self._patterns:
            if match := pattern.fullmatch(request.path):
                route = methods.get(method)
                if route is not None:
                    request.route, request.names = route.path, match.groupdict()
                    return route
                allowed += methods
        if not allowed:
            raise not_found("the path")
        what = ", ".join(sorted(allowed))
        detail = f"{request.method} is not allowed: the path takes {what}"
        raise RefusedError("method_not_allowed", detail, headers={"Allow": what})


_about: Final = Routes()


@_about("GET", "/openapi.json", Route(""))
async def get_document(request: Request) -> bytes:
    """The OpenAPI document."""
    return _document()


@_about("GET", "/docs", Route(""))
async def get_reference(request: Request) -> Reply:
    """A page about the interface, if the service has one."""
    if not request.gateway.settings.http.docs:
        raise not_found("the path")
    policy = (b"content-security-policy", reference.POLICY.encode())
    return Reply(200, _page(), b"text/html; charset=utf-8", [policy])


SERVICE: Final = Table(
    acting.routes, users.routes, agents.routes, states.routes, users.about_service, administration.routes, _about,
    health.routes, page.routes,
)  # fmt: skip
METRICS: Final = Table(health.metrics)
"""Routes of a separate port, where they need no token."""


@functools.cache
def _page() -> bytes:
    return reference.page(document()).encode()


@functools.cache
def _document() -> bytes:
    return to_json(document())


@functools.cache
def document() -> dict[str, Any]:
    """The OpenAPI document of the service."""
    return openapi_document(SERVICE.routes)
