"""The cookie of the web page's logins, and the requests that may use it."""

from __future__ import annotations

import urllib.parse

from .http_messages import Request


def cookie_name(request: Request) -> bytes:
    """The cookie's name. Cookies ignore ports, so two services on one machine need two names."""
    server = request.scope.get("server")
    name = b"axonrl-%d" % (server[1] if server and server[1] else 0)
    return b"__Host-" + name if request.is_secure else name


def cookie_of(request: Request) -> bytes | None:
    """The login of a request by the page itself; None if there is none, or if the request comes from another page."""
    sent = b";".join(value for name, value in request.scope["headers"] if name == b"cookie")
    pairs = (one.strip().partition(b"=") for one in sent.split(b";"))
    found = {name: value for name, _, value in pairs}.get(cookie_name(request))
    return found if found and is_own(request) else None


def is_own(request: Request) -> bool:
    """Whether a request comes from a page of this service, or from no page at all.

    Browsers send ``Sec-Fetch-Site``; without TLS they do not, and ``Origin`` is compared instead.
    """
    site, origin = request.headers.get(b"sec-fetch-site"), request.headers.get(b"origin")
    if site is not None:
        return site in (b"same-origin", b"none")
    host = request.headers.get(b"host", b"").lower()
    return origin is None or urllib.parse.urlsplit(origin).netloc.lower() == host


def set_cookie(request: Request, value: str) -> tuple[bytes, bytes]:
    """The header that sets a login in the browser until it is closed; an empty value removes it."""
    parts = [cookie_name(request) + b"=" + value.encode(), b"Path=/", b"HttpOnly", b"SameSite=Strict"]
    parts += [b"Secure"] if request.is_secure else []
    parts += [] if value else [b"Max-Age=0"]
    return b"set-cookie", b"; ".join(parts)
