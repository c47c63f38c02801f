"""The declaration of routes: each once, with the function that serves it."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import re
import typing
import urllib.parse
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import to_json

from ..accounts import Grant
from ..accounts.grants import ADMIN, WEB
from ..catalogue.sizes import MAX_NUMBERS
from ..hosting.values import place
from ..refusals import RefusedError, invalid
from ..workers.messages import MAX_BODY
from .bodies import form_of, json_of
from .gateway import API, FEW
from .http_messages import FORM_TYPE, JSON_TYPE, Reply, Request
from .settings import Limits

_Function = TypeVar("_Function", bound=Callable[..., Any])
_SMALL: Final = 2**16
"""Size in bytes up to which a body is parsed at once; a larger one in a thread, while others are answered."""
PLACEHOLDER: Final = re.compile(r"{(\w+)}")


class _Query(BaseModel):
    """Arguments in a query: unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


class BodyKind(NamedTuple):
    """The kind of body that a route takes.

    Args:
        types: media types; the first is the default.
        most: maximum of bytes, from the service's limits; 0: no limit.
        limits: keys of the service's limits that apply to it.
        values: maximum of JSON values; 0: not JSON.
        is_state: whether it may be large, and the worker reads it.
        is_frame: whether the function reads it, within limits of an agent's spaces, and the worker parses it.
        required: whether there must be one.
    """

    types: tuple[bytes, ...]
    most: Callable[[Limits], int]
    limits: tuple[str, ...]
    values: int = 0
    is_state: bool = False
    is_frame: bool = False
    required: bool = True


@dataclasses.dataclass(frozen=True)
class Route:
    """Permissions, body and limits of a route; :class:`Routes` completes it.

    Args:
        scope: scope that a token must have; empty: no token is needed.
        body: the body; None: none.
        own_limits: keys of the service's limits that apply besides the body's and those of every route.
        is_whole: whether it concerns the whole account, so that a token for some agents only is refused.
        page: whether a login of the web page suffices, though its only scope is ``read``.
        admit: checks and counts a request before its body is read.
        method: HTTP method.
        path: path with placeholders.
        tag: heading in the reference; empty: it is not there.
        function: serves a request.
        model: model of the function's argument ``body``; None without one.
        query: model of its arguments from the query; None where the function reads it, or it has no meaning.
        takes: type of the body in the reference.
        answers: type of the answer in the reference.
        status: status of a success.
        type: media type of the answer.
    """

    scope: str
    body: BodyKind | None = None
    own_limits: tuple[str, ...] = ()
    is_whole: bool = False
    page: bool = False
    admit: Callable[[Request], Awaitable[object]] | None = None
    method: str = ""
    path: str = ""
    tag: str = ""
    function: Callable[..., Awaitable[Any]] | None = None
    model: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    takes: Any = None
    answers: Any = None
    status: int = 200
    type: bytes = JSON_TYPE

    @property
    def limits(self) -> list[str]:
        """Keys of the limits that apply to it, besides those of every route."""
        changes = ("changes_per_minute",) if self.is_change else ()
        return [*(() if self.body is None else self.body.limits), *changes, *self.own_limits]

    @property
    def is_change(self) -> bool:
        """Whether it changes an account, and writes into the database and the audit log."""
        return self.scope == "manage" and self.method != "GET"

    @property
    def has_key(self) -> bool:
        """Whether a request is carried out once for each ``Idempotency-Key``."""
        return self.method == "POST" and bool(self.scope)

    def check(self, grant: Grant) -> None:
        """Refuse a token without permission; ``forbidden_scope``."""
        if self.scope not in grant.scopes and not (self.page and grant.kind == WEB):
            raise RefusedError("forbidden_scope", f"the token does not have the scope {self.scope}")
        if self.scope == ADMIN and grant.role != ADMIN:
            raise RefusedError("forbidden_scope", "this is for administrators only")
        if self.is_whole and grant.agents is not None:
            raise RefusedError("forbidden_scope", "this request is about the account, the token only about some agents")

    async def reply(self, request: Request) -> Reply:
        """Serve a request whose body was read."""
        arguments: dict[str, Any] = {}
        if self.query is not None:
            arguments.update(_valid(self.query, _pairs(request), "query"))
        if self.model is not None:
            if not request.body:
                raise invalid("body", "is missing")
            is_small = len(request.body) <= _SMALL
            arguments["body"] = self._read(request) if is_small else await asyncio.to_thread(self._read, request)
        found = await self.function(request, **arguments)  # type: ignore[misc] # it is complete
        if isinstance(found, Reply):
            return found
        if found is None:
            return Reply(self.status)
        if not isinstance(found, bytes):
            found = to_json(_adapter(self.answers).validate_python(found))
        return Reply(self.status, found, self.type)

    def _read(self, request: Request) -> Any:
        """The valid body; raises RefusedError."""
        is_form = self.body is not None and self.body.types == (FORM_TYPE,)
        found = form_of(request.body) if is_form else json_of(request.body, request.gateway.limits.json_depth)
        return _valid(self.model, found)  # type: ignore[arg-type] # there is one


@functools.cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class Routes:
    """The routes of one tag.

    Args:
        tag: heading in the reference; empty: they are not there.
        prefix: what every path begins with.
    """

    def __init__(self, tag: str = "", prefix: str = API) -> None:
        self._tag, self._prefix = tag, prefix
        self.declared: list[Route] = []

    def __call__(self, method: str, path: str, route: Route, **more: Any) -> Callable[[_Function], _Function]:
        """Decorate the function of a route.

        It is called with the request, ``body`` if it has one, and all other arguments that it has, from the query. It
        returns a JSON value, models included; bytes, for a body; None, for none; or a reply.

        Args:
            method: HTTP method.
            path: path after the prefix.
            route: permissions, body and limits.
            more: further fields of the route.
        """

        def declare(function: _Function) -> _Function:
            types = typing.get_type_hints(function, include_extras=True)
            query = {
                name: (types[name], argument.default)
                for name, argument in inspect.signature(function).parameters.items()
                if name not in ("request", "body")
            }
            checks_query = bool(self._tag) and (route.body is None or not route.body.is_frame)
            answers = types["return"]
            found: dict[str, Any] = {
                "takes": types.get("body"),
                "answers": None if answers in (Reply, type(None)) else answers,
                **more,
                "model": types.get("body"),
                "query": create_model("Query", __base__=_Query, **query) if checks_query else None,  # type: ignore[call-overload]
            }
            found |= {"method": method, "path": self._prefix + path, "tag": self._tag, "function": function}
            self.declared.append(dataclasses.replace(route, **found))
            return function

        return declare


def _pairs(request: Request) -> dict[str, str]:
    """Arguments in the query; RefusedError for one that is given twice."""
    pairs = urllib.parse.parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True)
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise invalid(f"query.{twice[:80]}", "is given twice")
    return found


def _valid(model: type[BaseModel], value: Any, *where: str) -> Any:
    """The valid value of a body, or the arguments in a query; RefusedError names all invalid places."""
    try:
        found = model.model_validate(value)
    except ValidationError as error:
        faults = error.errors(include_url=False)[:20]
        errors = [(place((*where, *one["loc"]) or ("body",))[:200], _what(one)) for one in faults]
        raise RefusedError("invalid_value", ": ".join(errors[0]), errors=errors) from None
    return {name: getattr(found, name) for name in model.model_fields} if where else found


def _what(error: Any) -> str:
    known = {"extra_forbidden": "unknown field", "missing": "is missing"}
    return known.get(error["type"], str(error["msg"]))


READ: Final = Route("read")
JSON: Final = BodyKind(
    (JSON_TYPE,), lambda limits: min(limits.body_bytes or MAX_BODY, MAX_BODY), ("body_bytes", "json_depth"), FEW
)
AGENT: Final = JSON._replace(values=FEW + 2 * MAX_NUMBERS)
"""The bounds of a space may be lists."""
