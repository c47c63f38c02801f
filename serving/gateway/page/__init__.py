"""The web page: its files and its login. All else it gets from the interface, with a read-only cookie."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Final

from starlette.types import Receive, Scope, Send

from ...accounts import By
from ...refusals import RefusedError
from ..calls import KEY, Call
from ..cookies import cookie_of, is_own, set_cookie
from ..gateway import Gateway
from ..http_messages import FORM_TYPE, JSON_TYPE, Head, Headers, send_answer
from ..problems import not_found
from ..users import FORM_BYTES, credentials, revoked

LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
SESSION: Final = "/session"
_FILES: Final = {
    "/": ("page.html", b"text/html; charset=utf-8"),
    "/page.css": ("page.css", b"text/css; charset=utf-8"),
    "/page.js": ("page.js", b"text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", b"image/svg+xml"),
}
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No content from elsewhere, no inline scripts, and no text that becomes HTML."""
_HEADERS: Final = [
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class Page:
    """The page behind the edge, which puts the caller into the scope, except for the login.

    The page's files are read once: a running service that is upgraded keeps its own.
    """

    def __init__(self) -> None:
        folder = resources.files(__package__)
        self._files = {path: (folder.joinpath(name).read_bytes(), kind) for path, (name, kind) in _FILES.items()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send, head: Head, headers: Headers) -> None:
        """Serve a file, or a login or logout; raises ``RefusedError``."""
        path, method = scope["path"], scope["method"]
        if path in self._files or path == SESSION:
            if method not in ("GET", "HEAD"):
                raise RefusedError("method_not_allowed", f"{path} takes GET", headers={"Allow": "GET, HEAD"})
            content, kind = self._files[path] if path in self._files else (_session(scope), JSON_TYPE)
            await send_answer(send, 200, content, [*_HEADERS, *headers], kind)
            return
        if path not in (LOGIN, LOGOUT):
            raise not_found("the path")
        if method != "POST":
            raise RefusedError("method_not_allowed", f"{path} takes POST", headers={"Allow": "POST"})
        cookie = await (_log_in if path == LOGIN else _log_out)(scope, receive, head)
        own = [set_cookie(scope, cookie), *_HEADERS]
        await send({"type": "http.response.start", "status": 204, "headers": [*own, *headers]})
        await send({"type": "http.response.body", "body": b""})


async def _log_in(scope: Scope, receive: Receive, head: Head) -> str:
    """A new cookie's value, for a name and a password; ends the previous login."""
    call: Call = scope[KEY]
    if not is_own(scope):
        raise RefusedError("invalid_request", "only the page of this service itself may log in here")
    head.check_type((FORM_TYPE,))
    gateway, by = call.gateway, call.by
    name, password = credentials(await _body(scope, receive, head, gateway))
    text = await gateway.threads.hash(gateway.accounts.web_login, name, password, by.address, request_id=by.request_id)
    await gateway.tokens.refresh()
    before = _known(scope)
    if before is not None:
        await revoked(before)
    return text


async def _log_out(scope: Scope, receive: Receive, head: Head) -> str:
    """End the login; returns no cookie."""
    head.check_type((JSON_TYPE, FORM_TYPE))
    await _body(scope, receive, head, scope[KEY].gateway)
    await revoked(_logged_in(scope))
    return ""


async def _body(scope: Scope, receive: Receive, head: Head, gateway: Gateway) -> bytes:
    return await gateway.bodies.read(receive, head, FORM_BYTES, 0, lambda: gateway.clients(scope, head, None))


def _session(scope: Scope) -> bytes:
    """The user who is logged in, or null. The page asks this first, where a 401 would be an error in its console."""
    known = _known(scope)
    return json.dumps({"user": None if known is None else known.grant.user}).encode()


def _known(scope: Scope) -> Call | None:
    """Result of :func:`_logged_in`; None if nobody is logged in."""
    try:
        return _logged_in(scope)
    except RefusedError as problem:
        if problem.status != 401:
            raise
        return None


def _logged_in(scope: Scope) -> Call:
    """The call with its cookie's permissions; raises like ``Tokens.web``."""
    call: Call = scope[KEY]
    cookie = cookie_of(scope)
    if cookie is None:
        raise RefusedError("missing_token", "this needs a login of the page of this service")
    grant = call.gateway.tokens.web(cookie).grant
    return dataclasses.replace(call, grant=grant, by=By(grant.user, call.by.address, call.by.request_id))
