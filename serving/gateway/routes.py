"""The interface's routes, as their modules declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.routing import compile_path

from ..refusals import RefusedError
from . import administration, agents, states, users
from .calls import Route, Routes
from .fast_path import HOT, PATH
from .gateway import API
from .problems import not_found

DECLARED: Final[tuple[Routes, ...]] = (
    users.routes,
    agents.routes,
    states.routes,
    users.about_service,
    administration.routes,
)


def _table() -> Mapping[str, Mapping[str, Route]]:
    table: dict[str, dict[str, Route]] = {path: {"GET": Route("")} for path in ("/openapi.json", "/docs")}
    for declared in DECLARED:
        for (path, method), route in declared.table.items():
            table.setdefault(path, {})[method] = route
    return table | {PATH + do: {"POST": hot.route} for do, hot in HOT.items()}


ROUTES: Final = _table()
"""Routes by the path after ``/api/v1`` and the method. There are no others."""

PUBLIC: Final = frozenset(API + path for path in ROUTES if not all(one.scope for one in ROUTES[path].values()))
_PATTERNS: Final = [(compile_path(path)[0], path) for path in ROUTES]


def found(method: str, path: str) -> tuple[str, Route, str]:
    """Find the route of a request.

    Returns:
        Its path in the table, its entry, and ``{name}`` of the request's path; empty if it has none.

    Raises:
        RefusedError: there is no such route, or not with this method.
    """
    given, allowed = path.removeprefix(API) if path.startswith(f"{API}/") else "", list[str]()
    for pattern, known in _PATTERNS:
        if match := pattern.match(given):
            route = ROUTES[known].get(method)
            if route is not None:
                return known, route, match.groupdict().get("name", "")
            allowed += ROUTES[known]
    if not allowed:
        raise not_found("the path")
    what = ", ".join(sorted(allowed))
    raise RefusedError("method_not_allowed", f"{method} is not allowed: the path takes {what}", headers={"Allow": what})
