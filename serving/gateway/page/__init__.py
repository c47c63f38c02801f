"""The web page: its files and its login. It gets everything else from the API, with a read-only cookie."""

from __future__ import annotations

from importlib import resources
from typing import Final

from pydantic_core import to_json

from ...refusals import RefusedError
from ..cookies import cookie_of, is_own, set_cookie
from ..declaration import Route, Routes
from ..http_messages import FORM_TYPE, JSON_TYPE, Headers, Reply, Request
from ..models import LoginForm
from ..users import FORM, logged_in, revoke

routes: Final = Routes(prefix="")
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
_HEADERS: Final[Headers] = (
    (b"content-security-policy", _POLICY.encode()),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def _serve(path: str, name: str, kind: bytes) -> None:
    content = resources.files(__package__).joinpath(name).read_bytes()  # a service that is upgraded keeps its own

    @routes("GET", path, Route(""))
    async def get_file(request: Request) -> Reply:
        return Reply(200, content, kind, _HEADERS)


for _path, (_name, _kind) in _FILES.items():
    _serve(_path, _name, _kind)


@routes("GET", "/session", Route(""))
async def get_session(request: Request) -> Reply:
    """The user who is logged in, or null. The page asks this first, where a 401 would be an error in its console."""
    user = request.grant.user if _is_logged_in(request) else None
    return Reply(200, to_json({"user": user}), JSON_TYPE, _HEADERS)


@routes("POST", "/login", Route("", FORM))
async def log_in(request: Request, body: LoginForm) -> Reply:
    """A new cookie, for a name and a password; ends the previous login."""
    if not is_own(request):
        raise RefusedError("invalid_request", "only the page of this service itself may log in here")
    text = await logged_in(request, body, request.gateway.accounts.web_login)
    if _is_logged_in(request):
        await revoke(request)
    return Reply(204, headers=[set_cookie(request, text), *_HEADERS])


@routes("POST", "/logout", Route("", FORM._replace(types=(JSON_TYPE, FORM_TYPE))))
async def log_out(request: Request) -> Reply:
    """End the login, and remove the cookie."""
    _log_in(request)
    await revoke(request)
    return Reply(204, headers=[set_cookie(request, ""), *_HEADERS])


def _is_logged_in(request: Request) -> bool:
    try:
        _log_in(request)
    except RefusedError as problem:
        if problem.status != 401:
            raise
        return False
    return True


def _log_in(request: Request) -> None:
    """Give a request the permissions of its cookie; raises like ``Tokens.web``."""
    cookie = cookie_of(request)
    if cookie is None:
        raise RefusedError("missing_token", "this needs a login of the page of this service")
    request.grant = request.gateway.tokens.web(cookie).grant
