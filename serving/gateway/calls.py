"""The call that a typed route serves, and the declaration of routes."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import APIRouter, Depends, Request

from ..accounts import By, Grant
from ..accounts.grants import ADMIN, WEB
from ..catalogue.sizes import MAX_NUMBERS
from ..refusals import RefusedError
from ..workers.messages import MAX_BODY
from .bodies import FEW, Upload
from .gateway import API, Gateway
from .http_messages import JSON_TYPE
from .settings import Limits

KEY: Final = "axonrl.call"
"""Key of the call in a request's scope."""
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Call:
    """A request that is authorised for its route.

    Args:
        gateway: shared by all routes.
        grant: permissions of its token.
        by: caller, for the audit log.
        body: the body as sent; empty if it is in a file.
        upload: the file.
    """

    gateway: Gateway
    grant: Grant
    by: By
    body: bytes
    upload: Upload | None = None


async def _call(request: Request) -> Call:
    found: Call = request.scope[KEY]
    return found


Called = Annotated[Call, Depends(_call)]
"""Argument of a route's function."""


class BodyKind(NamedTuple):
    """The kind of body that a route takes.

    Args:
        types: media types; the first is the default.
        most: maximum of bytes, from the service's limits; 0: no limit.
        limits: keys of the service's limits that apply to it.
        values: maximum of JSON values; 0: not JSON, or determined by the agent's spaces (:mod:`.fast_path`).
        is_state: whether it may be large, and the worker reads it.
    """

    types: tuple[bytes, ...]
    most: Callable[[Limits], int]
    limits: tuple[str, ...]
    values: int = 0
    is_state: bool = False


class Route(NamedTuple):
    """Permissions, body and limits of a route.

    Args:
        scope: scope that a token must have; empty: no token is needed.
        body: the body; None: none.
        own_limits: keys of the service's limits that apply beside the body's and those of every route.
        is_whole: whether it concerns the whole account, so that a token for some agents only is refused.
        page: whether a login of the web page suffices, though its only scope is ``read``.
        admit: checks and counts a call before its body is read; also takes ``{name}`` of its path, or an empty text.
    """

    scope: str
    body: BodyKind | None = None
    own_limits: tuple[str, ...] = ()
    is_whole: bool = False
    page: bool = False
    admit: Callable[[Call, str], Awaitable[object]] | None = None

    @property
    def limits(self) -> list[str]:
        """Keys of the limits that apply to it, beside those of every route."""
        return [*(() if self.body is None else self.body.limits), *self.own_limits]

    def check(self, grant: Grant) -> None:
        """Refuse a token without permission; ``forbidden_scope``."""
        if self.scope not in grant.scopes and not (self.page and grant.kind == WEB):
            raise RefusedError("forbidden_scope", f"the token does not have the scope {self.scope}")
        if self.scope == ADMIN and grant.role != ADMIN:
            raise RefusedError("forbidden_scope", "this is for administrators only")
        if self.is_whole and grant.agents is not None:
            raise RefusedError("forbidden_scope", "the token is for some agents only, this is about the account")


READ: Final = Route("read")
JSON: Final = BodyKind(
    (JSON_TYPE,), lambda limits: min(limits.body_bytes or MAX_BODY, MAX_BODY), ("body_bytes", "json_depth"), FEW
)
AGENT: Final = JSON._replace(values=FEW + 2 * MAX_NUMBERS)
"""The bounds of a space may be lists."""


class Routes:
    """The routes of one tag: each is declared once, with the function that serves it.

    Args:
        tag: heading in the reference.
    """

    def __init__(self, tag: str) -> None:
        self.router = APIRouter(prefix=API, tags=[tag])
        self.table: dict[tuple[str, str], Route] = {}
        """Routes by the path after ``/api/v1`` and the method."""

    def __call__(self, method: str, path: str, route: Route, **more: Any) -> Callable[[_Function], _Function]:
        """Decorate the function of a route; ``more``: arguments of FastAPI."""
        self.table[path, method] = route
        return self.router.api_route(path, methods=[method], **more)


def takes(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI's description of a body that no model describes."""
    return {"requestBody": {"required": True, "content": {kind: {"schema": schema}}}}
