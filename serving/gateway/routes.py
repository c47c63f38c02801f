"""The interface's routes, as their modules declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
_BY_LENGTH: Final = {
    length: [(path.split("/"), path) for path in ROUTES if path.count("/") == length]
    for length in {path.count("/") for path in ROUTES}
}


def found(method: str, path: str) -> tuple[str, Route, str]:
    """Find the route of a request.

    Returns:
        Its path in the table, its entry, and ``{name}`` of the request's path; empty if it has none.

    Raises:
        RefusedError: there is no such route, or not with this method.
    """
    given = path.removeprefix(API) if path.startswith(f"{API}/") else ""
    parts, allowed = given.split("/"), list[str]()
    for names, known in _BY_LENGTH.get(given.count("/"), ()):
        if all(part == name or (name[:1] == "{" and part) for part, name in zip(parts, names, strict=True)):
            route = ROUTES[known].get(method)
            if route is not None:
                return known, route, parts[names.index("{name}")] if "{name}" in names else ""
            allowed += ROUTES[known]
    if not allowed:
        raise not_found("the path")
    what = ", ".join(sorted(allowed))
    raise RefusedError("method_not_allowed", f"{method} is not allowed: the path takes {what}", headers={"Allow": what})
