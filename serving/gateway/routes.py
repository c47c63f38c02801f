"""Table of the interface's routes: permissions and bodies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from ..accounts import Grant
from ..accounts.grants import ADMIN, WEB
from ..catalogue.sizes import MAX_NUMBERS
from ..workers.messages import MAX_BODY
from . import agents, states
from .bodies import FEW
from .calls import Call
from .gateway import API
from .http_messages import FORM_TYPE, JSON_TYPE, STATE_TYPES
from .problems import ProblemError, not_found
from .settings import Limits

Admit = Callable[[Call, str], Awaitable[object]]
"""Checks and counts a call before its body is read; also takes ``{name}`` of its path, or an empty text."""


class Body(NamedTuple):
    """The body that a route takes.

    Args:
        types: media types; the first is the default.
        most: maximum of bytes, from the service's limits; 0: no limit.
        values: maximum of JSON values; 0: not JSON, or determined by the agent's spaces (:mod:`.fast_path`).
        is_state: whether it may be large, and the worker reads it.
    """

    types: tuple[bytes, ...]
    most: Callable[[Limits], int]
    values: int = 0
    is_state: bool = False


class Route(NamedTuple):
    """Permissions and body of a route.

    Args:
        scope: scope that a token must have; empty: no token is needed.
        body: the body; None: none.
        is_whole: whether it concerns the whole account, so that a token for some agents only is refused.
        page: whether a login of the web page suffices, though its only scope is ``read``.
        admit: see :data:`Admit`.
    """

    scope: str
    body: Body | None = None
    is_whole: bool = False
    page: bool = False
    admit: Admit | None = None

    def check(self, grant: Grant) -> None:
        """Refuse a token without permission; ``forbidden_scope``."""
        if self.scope not in grant.scopes and not (self.page and grant.kind == WEB):
            raise ProblemError("forbidden_scope", f"the token does not have the scope {self.scope}")
        if self.scope == ADMIN and grant.role != ADMIN:
            raise ProblemError("forbidden_scope", "this is for administrators only")
        if self.is_whole and grant.agents is not None:
            raise ProblemError("forbidden_scope", "the token is for some agents only, this is about the account")


FORM_BYTES: Final = 2**14
"""Maximum of a login form: a password has up to 1,024 characters of up to 4 bytes, each three characters in a form."""
_OF_SPACE: Final = 2 * MAX_NUMBERS
"""JSON values of the bounds of a space as lists."""
_OF_STATE: Final = 100
"""JSON values of a state: six fields, one of which may be a list; large content is text."""

LOGIN: Final = Body((FORM_TYPE,), lambda limits: FORM_BYTES)
JSON: Final = Body((JSON_TYPE,), lambda limits: min(limits.body_bytes or MAX_BODY, MAX_BODY), FEW)
AGENT: Final = JSON._replace(values=FEW + _OF_SPACE)
STEP: Final = JSON._replace(values=0)
BATCH: Final = STEP._replace(most=lambda limits: min(limits.batch_bytes or MAX_BODY, MAX_BODY))
SNAPSHOT: Final = Body((JSON_TYPE,), lambda limits: limits.state_bytes, _OF_STATE, is_state=True)
FILE: Final = Body(STATE_TYPES, lambda limits: limits.state_bytes, is_state=True)

_ACCOUNT: Final = Route("manage", is_whole=True)
_ADMINISTRATION: Final = Route(ADMIN)

ROUTES: Final[Mapping[str, Mapping[str, Route]]] = {
    "/openapi.json": {"GET": Route("")},
    "/docs": {"GET": Route("")},
    "/login/access-token": {"POST": Route("", LOGIN)},
    "/logout": {"POST": _ACCOUNT},
    "/models": {"GET": Route("read")},
    "/service": {"GET": Route("read")},
    "/tokens": {"GET": _ACCOUNT._replace(page=True), "POST": _ACCOUNT._replace(body=JSON)},
    "/tokens/{token_id}": {"DELETE": _ACCOUNT},
    "/users/me": {"GET": Route("read")},
    "/users/me/password": {"POST": _ACCOUNT._replace(body=JSON)},
    "/agents": {"GET": Route("read"), "POST": Route("manage", AGENT, admit=agents.charge_creation)},
    "/agents/{name}": {
        "GET": Route("read"),
        "PATCH": Route("manage", JSON, admit=agents.whole),
        "DELETE": Route("manage"),
    },
    "/agents/{name}/act": {"POST": Route("act", BATCH)},
    "/agents/{name}/step": {"POST": Route("learn", STEP)},
    "/agents/{name}/steps": {"POST": Route("learn", BATCH)},
    "/agents/{name}/end_episode": {"POST": Route("learn", JSON)},
    "/agents/{name}/loss": {"GET": Route("read")},
    "/agents/{name}/episodes": {"GET": Route("read")},
    "/agents/{name}/state": {"GET": Route("read"), "PUT": Route("manage", FILE, admit=states.charge_upload)},
    "/snapshots/{name}": {"GET": Route("read"), "POST": Route("manage", SNAPSHOT, admit=states.charge_upload)},
    "/users": {"GET": _ADMINISTRATION, "POST": _ADMINISTRATION._replace(body=JSON)},
    "/users/{name}": {
        "GET": _ADMINISTRATION,
        "PATCH": _ADMINISTRATION._replace(body=JSON),
        "DELETE": _ADMINISTRATION,
    },
    "/users/{name}/agents": {"GET": _ADMINISTRATION},
    "/users/{name}/agents/{agent}": {"GET": _ADMINISTRATION, "DELETE": _ADMINISTRATION},
    "/audit": {"GET": _ADMINISTRATION},
}
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
        ProblemError: there is no such route, or not with this method.
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
    raise ProblemError("method_not_allowed", f"{method} is not allowed: the path takes {what}", headers={"Allow": what})
