"""The ASGI application: common handling of every request, before and after its route."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import time
from typing import Final

from ..accounts.idempotency import request_digest, without_secrets
from ..idempotency import key_of
from ..logs import LOGGER
from ..refusals import RefusedError, invalid
from .bodies import Share, read
from .cookies import cookie_of
from .declaration import Route
from .gateway import ANONYMOUS, Gateway
from .http_messages import (
    CLOSING,
    JSON_TYPE,
    REPLAYED,
    DisconnectedError,
    Headers,
    Receive,
    Reply,
    Request,
    Scope,
    Send,
)
from .problems import of_error
from .routes import SERVICE, Table

_ALWAYS: Final = ((b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"))
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_EXPOSED: Final = (b"access-control-expose-headers", b"X-Request-Id, Retry-After, Idempotent-Replayed")
_PREFLIGHT: Final = (
    (b"access-control-allow-methods", b"GET, POST, PUT, PATCH, DELETE"),
    (b"access-control-allow-headers", b"Authorization, Content-Type, Idempotency-Key"),
)
_DROPPED: Final = 2**16
"""Largest unread body, in bytes, for which a connection is kept."""


class Edge:
    """The ASGI application.

    Args:
        gateway: shared by all routes.
        table: the routes.
    """

    def __init__(self, gateway: Gateway, table: Table = SERVICE) -> None:
        self._gateway, self._table = gateway, table
        self._origins = frozenset(origin.encode() for origin in gateway.settings.http.allowed_origins)
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        request = Request(self._gateway, scope, receive, f"{self._prefix}{next(self._numbers):08x}")
        status = 499
        try:
            reply = await self._reply(request)
            status = reply.status
            await reply.send(send, request, self._headers(request))
        except DisconnectedError:
            pass
        finally:
            for end in request.ends:
                end()
        seconds = time.perf_counter() - begun
        self._gateway.meters.count_request(request.route, status, seconds)
        if status >= 500:
            about = {"request_id": request.id, "route": request.route, "status": status}
            LOGGER.warning("answered with an error", extra={**about, "milliseconds": round(seconds * 1000)})

    async def _reply(self, request: Request) -> Reply:
        """The reply to a request, refusals and bugs included; raises DisconnectedError."""
        try:
            reply = await self._serve(request)
            if reply.is_large:
                Share(request, request.gateway.files).add(len(reply.body))
        except DisconnectedError:
            raise
        except Exception as error:
            problem = of_error(error)
            if problem is None:
                LOGGER.exception("a request failed", extra={"request_id": request.id, "route": request.route})
                problem = RefusedError("internal", "")
            if problem.status in (401, 403):
                self._record(request, problem.code)
            reply = Reply.refusing(problem, request)
        if not request.is_read and _is_large(request) and not reply.is_closing:
            reply = reply._replace(headers=[*reply.headers, CLOSING])
        return reply

    async def _serve(self, request: Request) -> Reply:
        self._check(request)
        if request.method == "OPTIONS" and request.headers.get(b"origin") in self._origins:
            request.route = "preflight"
            return Reply(204, headers=_PREFLIGHT)
        if request.path.endswith("/") and len(request.path) > 1:
            request.path = request.path[:-1]
        if request.path.startswith("/api/") and request.path not in self._table.public:
            self._let_in(request)
        route = self._table.find(request)
        if route.scope:
            if request.grant is ANONYMOUS:
                self._let_in(request)
            route.check(request.grant)
        if route.is_change:
            self._gateway.charge("changes_per_minute", request.grant, request.grant.user_id)
        kind, has_key = route.body, route.has_key
        if kind is not None:
            request.check_type(kind.types)
        if route.admit is not None:
            await route.admit(request)
        if kind is not None and kind.is_frame:
            has_key = False  # the worker knows its keys
        elif kind is not None:
            await read(request, kind.most(self._gateway.limits), kind.values, is_state=kind.is_state)
        key = key_of(request.headers.get(b"idempotency-key")) if has_key else None
        return await (route.reply(request) if key is None else _reply_once(request, route, key))

    def _let_in(self, request: Request) -> None:
        """Find who asks, by a token, or by the page's cookie, which only reads; count the request of the account."""
        tokens, token = self._gateway.tokens, request.headers.get(b"authorization")
        cookie = cookie_of(request) if token is None and request.method == "GET" else None
        request.grant = (tokens.held(token) if cookie is None else tokens.web(cookie)).grant
        self._gateway.charge("requests_per_minute", request.grant, request.grant.user_id)

    def _check(self, request: Request) -> None:
        """Refuse requests that no route accepts."""
        limits, scope = self._gateway.limits, request.scope
        if request.method in ("TRACE", "CONNECT"):
            raise RefusedError("method_not_allowed", f"{request.method} is not allowed")
        if limits.url_bytes and len(scope["raw_path"]) + len(scope["query_string"]) > limits.url_bytes:
            raise invalid("url", f"may have {limits.url_bytes} bytes")
        size = sum(map(len, itertools.chain.from_iterable(scope["headers"]))) + 4 * len(scope["headers"])
        if limits.header_bytes and size > limits.header_bytes:
            raise RefusedError("body_too_large", f"the headers may have {limits.header_bytes} bytes").closing()
        if not request.headers.get(b"content-length", b"0").isdigit():
            raise RefusedError("invalid_request", "Content-Length must be a number").closing()
        if request.has_lost_body:
            what = "Upgrade is not supported, and a body after it cannot be read: send HTTP/1.1 without Upgrade"
            raise RefusedError("invalid_request", what).closing()

    def _headers(self, request: Request) -> Headers:
        """Headers of every answer."""
        headers = [(b"x-request-id", request.id.encode()), *_ALWAYS]
        if request.is_secure:
            headers.append(_HSTS)
        if self._origins:
            headers.append((b"vary", b"Origin"))
            origin = request.headers.get(b"origin", b"")
            if origin in self._origins:
                headers += [(b"access-control-allow-origin", origin), _EXPOSED]
        return headers

    def _record(self, request: Request, code: str) -> None:
        """Record a refusal in the audit log, after the answer."""
        task = asyncio.create_task(self._gateway.record_refusal(code, request.by, request.route))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _reply_once(request: Request, route: Route, key: str) -> Reply:
    """Carry out a request if it is the first with its key, else repeat the first answer.

    Raises:
        RefusedError: another request had this key, or the first one is still in progress.
    """
    gateway, user = request.gateway, request.grant.user_id
    target = f"{request.method} {request.path}?".encode() + request.scope["query_string"]
    digest = request_digest(target, request.body if request.upload is None else request.upload.digest)
    is_first = (user, key) not in gateway.under_way
    if is_first:  # before the database is asked: of two requests at once, it may answer the second one first
        gateway.under_way.add((user, key))
    try:
        known = await gateway.threads.call(gateway.idempotency.begin, user, key, digest)
        if known is not None and known.status is not None:
            return Reply(known.status, known.body, JSON_TYPE if known.body else b"", REPLAYED)
        if not is_first:
            raise RefusedError("unavailable", "the first request with this Idempotency-Key is still in progress")
        return await _reply_first(request, route, key)  # the server of one that is known has crashed
    finally:
        if is_first:
            gateway.under_way.discard((user, key))


async def _reply_first(request: Request, route: Route, key: str) -> Reply:
    """Carry out a request, and store its answer; a refusal is not stored."""
    idempotency, call, user = request.gateway.idempotency, request.gateway.threads.call, request.grant.user_id
    try:
        reply = await route.reply(request)
        with contextlib.suppress(RefusedError):  # the request is done in any case
            await call(idempotency.finish, user, key, reply.status, without_secrets(reply.body))
    except BaseException:
        await asyncio.shield(call(idempotency.forget, user, key))
        raise
    return reply


def _is_large(request: Request) -> bool:
    """Whether the rest of a request may be too large to read and drop."""
    length = request.headers.get(b"content-length", b"")
    return int(length) > _DROPPED if length.isdigit() else b"transfer-encoding" in request.headers
