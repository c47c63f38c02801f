"""The cookie of the web page's logins, and the requests that may use it."""

from __future__ import annotations

import urllib.parse
from typing import Final

from starlette.requests import cookie_parser
from starlette.types import Scope

SECURE: Final = "axonrl.secure"
"""Key of a request's scope: whether it came over TLS, to the service or to its proxy."""
_OWN: Final = frozenset({b"same-origin", b"none"})


def cookie_name(scope: Scope) -> bytes:
    """The cookie's name. Cookies ignore ports, so two services on one machine need two names."""
    server = scope.get("server")
    name = b"axonrl-%d" % (server[1] if server and server[1] else 0)
    return b"__Host-" + name if scope.get(SECURE) else name


def cookie_of(scope: Scope) -> bytes | None:
    """The login of a request by the page itself; None if there is none, or if the request comes from another page."""
    sent = b"; ".join(value for name, value in scope["headers"] if name == b"cookie").decode("latin-1")
    found = cookie_parser(sent).get(cookie_name(scope).decode(), "")
    return found.encode("latin-1") if found and is_own(scope) else None


def is_own(scope: Scope) -> bool:
    """Whether a request comes from a page of this service, or from no page at all.

    Browsers send ``Sec-Fetch-Site``; without TLS they do not, and ``Origin`` is compared instead.
    """
    headers = dict(scope["headers"])
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site in _OWN
    origin = headers.get(b"origin")
    return origin is None or urllib.parse.urlsplit(origin).netloc.lower() == headers.get(b"host", b"").lower()


def set_cookie(scope: Scope, value: str) -> tuple[bytes, bytes]:
    """The header that sets a login in the browser until it is closed; an empty value removes it."""
    parts = [cookie_name(scope) + b"=" + value.encode(), b"Path=/", b"HttpOnly", b"SameSite=Strict"]
    parts += [b"Secure"] if scope.get(SECURE) else []
    parts += [] if value else [b"Max-Age=0"]
    return b"set-cookie", b"; ".join(parts)
