"""The outermost application: common handling of every request, before and after its route."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..accounts import By, Grant
from ..accounts.idempotency import request_digest, without_secrets
from ..idempotency import key_of
from ..logs import LOGGER
from ..refusals import RefusedError, invalid
from .bodies import checked_json
from .calls import KEY, BodyKind, Call
from .cookies import SECURE, cookie_of
from .fast_path import HOT, PATH, done
from .gateway import API, Gateway
from .http_messages import (
    JSON_TYPE,
    DisconnectedError,
    Head,
    Headers,
    Page,
    address_of,
    replaying,
    send_answer,
    send_problem,
    trusted,
)
from .problems import not_found
from .routes import PUBLIC, found

ALWAYS: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
METRICS_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_HSTS: Final = (b"strict-transport-security", b"max-age=31536000")
_EXPOSED: Final = b"X-Request-Id, Retry-After, Idempotent-Replayed"
_ALLOWED: Final = b"Authorization, Content-Type, Idempotency-Key"
_METHODS: Final = b"GET, POST, PUT, PATCH, DELETE"
_DROPPED: Final = 2**16
"""Largest unread body, in bytes, for which a connection is kept."""
_UNKNOWN: Final = "(none)"
_REFUSALS: Final = frozenset({401, 403})


class Edge:
    """The ASGI application.

    Args:
        gateway: shared by all routes.
        typed: the application with the typed routes.
        page: the web page, for other paths outside the interface; None: there are none.
    """

    def __init__(self, gateway: Gateway, typed: ASGIApp, page: Page | None = None) -> None:
        self._gateway, self._typed, self._page = gateway, typed, page
        self._origins = frozenset(origin.encode() for origin in gateway.settings.http.allowed_origins)
        self._prefix, self._numbers = secrets.token_hex(4), itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._url_bytes, self._header_bytes = gateway.limits.url_bytes, gateway.limits.header_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            return
        begun = time.perf_counter()
        request_id = f"{self._prefix}{next(self._numbers):08x}"
        head = Head(scope["headers"])
        route, status, headers = _UNKNOWN, 500, self._headers(scope, head, request_id)
        watched = _Watched(send)
        try:
            route, status = await self._serve(scope, receive, watched, head, headers, request_id)
        except RefusedError as problem:
            route, status = _route_of(scope), problem.status
            if not head.is_read and _is_large(head, scope):
                problem.closing()
            if not watched.started:
                await send_problem(receive, watched, problem, request_id, headers)
            if status in _REFUSALS:
                self._refused(scope, head, problem.code, request_id)
        except DisconnectedError:
            route, status = _route_of(scope), 499
        except Exception:
            LOGGER.exception("a request failed", extra={"request_id": request_id, "route": _route_of(scope)})
            if watched.started:
                raise
            await send_problem(receive, watched, RefusedError("internal", ""), request_id, headers)
        finally:
            if head.holds is not None:
                head.holds.end()
        seconds = time.perf_counter() - begun
        self._gateway.meters.seen(route, status, seconds)
        if status >= 500:
            extra = {"request_id": request_id, "route": route, "status": status, "milliseconds": round(seconds * 1000)}
            LOGGER.warning("answered with an error", extra=extra)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, head: Head, headers: Headers, request_id: str
    ) -> tuple[str, int]:
        """Serve a request.

        Returns:
            Its route and its status.
        """
        self._check(scope, head)
        path, method = scope["path"], scope["method"]
        if method == "OPTIONS" and head.origin and head.origin in self._origins:
            allowed = [(b"access-control-allow-methods", _METHODS), (b"access-control-allow-headers", _ALLOWED)]
            await send({"type": "http.response.start", "status": 204, "headers": [*headers, *allowed]})
            await send({"type": "http.response.body", "body": b""})
            return "preflight", 204
        if path.endswith("/") and len(path) > 1:
            path = scope["path"] = path[:-1]
            scope["raw_path"] = scope.get("raw_path", b"").removesuffix(b"/")
        if not path.startswith("/api/"):
            return await self._outside(scope, receive, send, head, headers, request_id)
        if path in PUBLIC:
            return await self._typed_route(scope, receive, send, head, headers, request_id, None)
        grant = self._grant(scope, head)
        scope["axonrl.user"] = grant.user
        self._gateway.charge_request(grant)
        parts = path.split("/")
        if len(parts) == 6 and parts[3] == "agents" and parts[5] in HOT and parts[2] == "v1":
            if method != "POST":
                raise RefusedError("method_not_allowed", f"{parts[5]} takes POST", headers={"Allow": "POST"})
            scope["axonrl.route"] = route = API + PATH + parts[5]
            answer = await done(self._gateway, scope, receive, head, grant, parts[4], parts[5])
            more = [(b"idempotent-replayed", b"true")] if answer.replayed else []
            await send_answer(send, answer.status, answer.body, [*more, *headers])
            return route, answer.status
        return await self._typed_route(scope, receive, send, head, headers, request_id, grant)

    def _grant(self, scope: Scope, head: Head) -> Grant:
        """Permissions of a request, by its token, or by the page's cookie, which only reads."""
        if head.authorization is None and scope["method"] == "GET":
            cookie = cookie_of(scope)
            if cookie is not None:
                return self._gateway.tokens.web(cookie).grant
        return self._gateway.tokens.held(head.authorization).grant

    def _check(self, scope: Scope, head: Head) -> None:
        """Refuse requests that no route accepts."""
        if scope["method"] in ("TRACE", "CONNECT"):
            raise RefusedError("method_not_allowed", f"{scope['method']} is not allowed")
        if self._url_bytes and len(scope["raw_path"]) + len(scope["query_string"]) > self._url_bytes:
            raise invalid("url", f"may have {self._url_bytes} bytes")
        if self._header_bytes and head.size > self._header_bytes:
            what = f"the headers may have {self._header_bytes} bytes"
            raise RefusedError("body_too_large", what, headers={"Connection": "close"})
        if head.length and not head.length.isdigit():
            raise RefusedError("invalid_request", "Content-Length must be a number", headers={"Connection": "close"})

    def _headers(self, scope: Scope, head: Head, request_id: str) -> Headers:
        """Headers of every answer."""
        headers = [(b"x-request-id", request_id.encode()), *ALWAYS]
        client = scope.get("client") or ("",)
        if scope["scheme"] == "https" or (head.proto == b"https" and trusted(str(client[0]), self._gateway.proxies)):
            scope[SECURE] = True
            headers.append(_HSTS)
        if self._origins:
            headers.append((b"vary", b"Origin"))
            if head.origin in self._origins:
                headers.append((b"access-control-allow-origin", head.origin))
                headers.append((b"access-control-expose-headers", _EXPOSED))
        return headers

    async def _outside(
        self, scope: Scope, receive: Receive, send: Send, head: Head, headers: Headers, request_id: str
    ) -> tuple[str, int]:
        """Serve paths outside the interface: health, metrics, the page."""
        gateway, path = self._gateway, scope["path"]
        if path in ("/livez", "/readyz", "/metrics") and scope["method"] not in ("GET", "HEAD"):
            raise RefusedError("method_not_allowed", f"{path} takes GET", headers={"Allow": "GET"})
        if path == "/livez":
            await send_answer(send, 200, b'{"status":"alive"}', headers)
            return path, 200
        if path == "/readyz":
            checks = gateway.checked()
            ready = all(check == "ok" for check in checks.values())
            body = json.dumps({"status": "ready" if ready else "not ready", "checks": checks}).encode()
            await send_answer(send, 200 if ready else 503, body, headers)
            return path, 200 if ready else 503
        if path == "/metrics":
            grant = gateway.tokens.held(head.authorization).grant
            if "metrics" not in grant.scopes:
                raise RefusedError("forbidden_scope", "the token does not have the scope metrics")
            text = await asyncio.to_thread(gateway.meters.text)
            await send_answer(send, 200, text, headers, METRICS_TYPE)
            return path, 200
        if self._page is None:
            raise not_found("the path")
        by = By("unknown", address_of(scope, head, gateway.proxies), request_id)
        scope[KEY] = Call(gateway, None, by, b"")  # type: ignore[arg-type] # the page finds out who asks
        await self._page(scope, receive, send, head, headers)
        return "page", 200

    async def _typed_route(
        self, scope: Scope, receive: Receive, send: Send, head: Head, headers: Headers, request_id: str,
        grant: Grant | None,
    ) -> tuple[str, int]:  # fmt: skip
        """Serve a FastAPI route, with an authorised caller and a checked body."""
        gateway, method, path = self._gateway, scope["method"], scope["path"]
        template, route, name = found(method, path)
        scope["axonrl.route"] = API + template
        if grant is not None:
            route.check(grant)
        by = By(grant.user if grant is not None else "unknown", address_of(scope, head, gateway.proxies), request_id)
        call = Call(gateway, grant, by, b"")  # type: ignore[arg-type] # no public route asks for it
        if route.admit is not None:
            await route.admit(call, name)
        if route.body is not None:
            call = await self._with_body(call, route.body, scope, receive, head)
        scope[KEY], body = call, call.body
        key = key_of(head.key) if method == "POST" and grant is not None else None

        def run() -> Awaitable[Answered]:
            return _captured(self._typed, scope, replaying(body, receive))

        asked = body if call.upload is None else call.upload.digest
        if key is None or grant is None:
            answered = await run()
        else:
            digest = request_digest(f"{method} {path}?".encode() + scope["query_string"], asked)
            answered = await _once(gateway, grant.user_id, key, digest, run)
        await send({"type": "http.response.start", "status": answered.status, "headers": [*answered.headers, *headers]})
        await send({"type": "http.response.body", "body": answered.body})
        if answered.status in _REFUSALS:
            self._refused(scope, head, json.loads(answered.body)["code"], request_id)
        return _route_of(scope), answered.status

    async def _with_body(self, call: Call, expected: BodyKind, scope: Scope, receive: Receive, head: Head) -> Call:
        gateway, limits = self._gateway, self._gateway.limits
        head.check_type(expected.types)
        most = expected.most(limits)

        def clients() -> list[str]:
            return gateway.clients(scope, head, call.grant)

        if expected.is_state:
            body, upload = await gateway.bodies.keep(receive, head, most, expected.values, clients)
            return dataclasses.replace(call, body=body, upload=upload)
        body = await gateway.bodies.read(receive, head, most, expected.values, clients)
        if body and expected.values:
            checked_json(body, limits.json_depth)
        return dataclasses.replace(call, body=body)

    def _refused(self, scope: Scope, head: Head, code: str, request_id: str) -> None:
        """Record a refusal in the audit log, after the answer."""
        address = address_of(scope, head, self._gateway.proxies)
        by = By(scope.get("axonrl.user", "unknown"), address, request_id)
        task = asyncio.create_task(self._gateway.record_refusal(code, by, _route_of(scope)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Answered(NamedTuple):
    """A typed route's answer."""

    status: int
    body: bytes
    headers: Headers


async def _once(gateway: Gateway, user: str, key: str, digest: str, run: Callable[[], Awaitable[Answered]]) -> Answered:
    """Carry out a request if it is the first with its key, else repeat the first answer.

    Args:
        gateway: shared by all routes.
        user: the account's id.
        key: the request's idempotency key.
        digest: digest of the request.
        run: carries it out.

    Raises:
        RefusedError: another request had this key, or the first one is still in progress.
    """
    idempotency, call = gateway.idempotency, gateway.threads.call
    known = await call(idempotency.begin, user, key, digest)
    if known is not None and known.status is not None:
        headers = [(b"content-type", JSON_TYPE), (b"idempotent-replayed", b"true")]
        return Answered(known.status, known.body, headers)
    if known is not None and (user, key) in gateway.under_way:  # otherwise its server has crashed
        raise RefusedError("unavailable", "the first request with this Idempotency-Key is still under way")
    gateway.under_way.add((user, key))
    try:
        answered = await run()
        if answered.status < 400:
            with contextlib.suppress(RefusedError):  # the request is done in any case
                await call(idempotency.finish, user, key, answered.status, without_secrets(answered.body))
            return answered
    except BaseException:
        await asyncio.shield(call(idempotency.forget, user, key))
        raise
    finally:
        gateway.under_way.discard((user, key))
    await call(idempotency.forget, user, key)  # refusals are not stored
    return answered


class _Watched:
    """A ``send`` that knows whether the answer has begun."""

    __slots__ = ("_send", "started")

    def __init__(self, send: Send) -> None:
        self._send, self.started = send, False

    def __call__(self, message: Message) -> Awaitable[None]:
        self.started = True
        return self._send(message)


async def _captured(app: ASGIApp, scope: Scope, receive: Receive) -> Answered:
    """Capture an application's answer."""
    status, headers, parts = 500, list[tuple[bytes, bytes]](), list[bytes]()

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status, headers = message["status"], list(message.get("headers", ()))
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    return Answered(status, parts[0] if len(parts) == 1 else b"".join(parts), headers)


def _route_of(scope: Scope) -> str:
    """The path of a request's route, with placeholders for names."""
    return str(scope.get("axonrl.route", _UNKNOWN))


def _is_large(head: Head, scope: Scope) -> bool:
    """Whether the rest of a request may be too large to read and drop."""
    if head.length.isdigit():
        return int(head.length) > _DROPPED
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])
