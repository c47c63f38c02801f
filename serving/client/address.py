"""The service's address: rules for its URL."""

from __future__ import annotations

import ipaddress
import os
import urllib.parse
import warnings
from collections.abc import Mapping
from typing import Final, NamedTuple

from .errors import ArgumentError

DEFAULT: Final = "http://127.0.0.1:8000"
_PREFIX: Final = "/api/v1"
_warned: set[str] = set()


class Address(NamedTuple):
    """A service. ``prefix`` begins each path, and ends with ``/api/v1``."""

    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def url(self) -> str:
        """The URL with ``/api/v1``, without the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme, default = ("https", 443) if self.secure else ("http", 80)
        port = "" if self.port == default else f":{self.port}"
        return f"{scheme}://{host}{port}{self.prefix}"


def find(url: str | None, environ: Mapping[str, str] = os.environ) -> Address:
    """The address from an argument, else from the environment, else this machine's.

    Args:
        url: ``"https://agents.example.org"``; without a scheme it is https, or http on this machine.
        environ: read for ``AXONRL_URL`` and ``AGENTS_BAR_URL``.

    Raises:
        ArgumentError: not an http or https URL, or a URL with credentials, a query or a fragment.
    """
    if url is None:
        url = environ.get("AXONRL_URL") or environ.get("AGENTS_BAR_URL") or DEFAULT
    if not isinstance(url, str) or not url.strip():
        raise ArgumentError(f"url must be a URL such as {DEFAULT!r}, got {url!r}", "url")
    address = parse(url.strip())
    if not address.secure and not is_loopback(address.host) and address.host not in _warned:
        _warned.add(address.host)
        message = f"{address.url} is plain http: passwords, tokens and data can be read on the way. Use https."
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return address


def parse(url: str) -> Address:
    """The address in a URL; see :func:`find`."""
    try:
        parts = urllib.parse.urlsplit(url if "://" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ArgumentError(f"url is not valid: {error}", "url") from None
    if "@" in parts.netloc:  # keep it out of the message
        raise ArgumentError("url must not contain credentials; use username and password, or access_token", "url")
    if parts.query or parts.fragment or not host or parts.scheme not in ("", "http", "https"):
        wanted = "must be an http or https URL without query and fragment"
        raise ArgumentError(f"url {wanted}, got {url!r}", "url")
    try:
        host.encode("idna")  # as each connection does
    except UnicodeError:
        raise ArgumentError(f"url is not valid: a part of its host {host!r} is empty or too long", "url") from None
    secure = parts.scheme == "https" or (not parts.scheme and not is_loopback(host))
    path = parts.path.rstrip("/")
    if not path.endswith(_PREFIX):
        path += _PREFIX
    path = urllib.parse.quote(path, safe="/%~:@!$&'()*+,;=")
    return Address(secure, host, port if port is not None else 443 if secure else 80, path)


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
