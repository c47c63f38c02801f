"""Blocking connections to one service, kept open between requests and shared by threads."""

from __future__ import annotations

import collections
import contextlib
import http.client
import os
import select
import socket
import ssl
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

from .address import Address
from .credentials import Secret
from .errors import ArgumentError
from .messages import Lost, Request, Response, Result, make_response

_KEPT: Final = 16


class Connections:
    """Sends requests over http.client; urllib3's pool would double the cost.

    Args:
        address: address of the service.
        verify: check of the certificate: True by the system's authorities, a path by those in this file or folder.
    """

    def __init__(self, address: Address, verify: bool | str | os.PathLike[str]) -> None:
        self._idle: collections.deque[http.client.HTTPConnection] = collections.deque(maxlen=_KEPT)
        self.address = address
        self._tls = tls_context(verify) if address.secure else None
        self._process = os.getpid()
        weakref.finalize(self, _close, self._idle)  # __del__ may run after the sockets', which would complain

    async def sleep(self, seconds: float) -> None:
        """See :class:`.retries.Transport`."""
        time.sleep(seconds)

    async def call(self, function: Callable[[], Result]) -> Result:
        """See :class:`.retries.Transport`."""
        return function()

    async def send(self, request: Request, token: Secret | None, timeout: float) -> Response | Lost:
        """See :class:`.retries.Transport`."""
        if self._process != os.getpid():  # a fork: these are the parent's connections
            self.close()
            self._process = os.getpid()
        connection = self._connection(timeout)
        keep = False
        try:
            whole = self._write(connection, request, token)
            response = connection.getresponse()
            body = response.read()
            keep = whole and not response.will_close
        except ssl.SSLCertVerificationError as error:
            return Lost("certificate", str(error), for_good=True)
        except TimeoutError:
            return Lost("timeout", f"no answer within {timeout:g} seconds")
        except (OSError, http.client.HTTPException) as error:
            return Lost("unreachable", f"{type(error).__name__}: {error}")
        finally:
            if keep:
                self._keep(connection)
            else:
                connection.close()
        return make_response(response.status, body, response.headers.get)

    def _write(self, connection: http.client.HTTPConnection, request: Request, token: Secret | None) -> bool:
        """Send a request; False if the service stopped reading, as after answering that it is too large."""
        target = self.address.prefix + request.path
        try:
            connection.request(request.method, target, request.body, request.headers(token))
        except (BrokenPipeError, ConnectionResetError):
            if connection.sock is None:
                raise
            return False
        return True

    def close(self) -> None:
        """Close idle connections. A later request opens a new one."""
        _close(self._idle)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        """An idle connection that the service has not closed, else a new one."""
        with contextlib.suppress(IndexError):
            while True:
                found = self._idle.pop()
                if found.sock is not None and not _has_input(found.sock):
                    found.sock.settimeout(timeout)
                    return found
                found.close()
        host, port = self.address.host, self.address.port
        if self._tls is not None:
            return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)
        return http.client.HTTPConnection(host, port, timeout=timeout)

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        if len(self._idle) < _KEPT:
            self._idle.append(connection)
        else:
            connection.close()


def _close(idle: collections.deque[http.client.HTTPConnection]) -> None:
    with contextlib.suppress(IndexError):
        while True:
            idle.pop().close()


def _has_input(sock: socket.socket) -> bool:
    """Whether an idle connection has something to read: its end, or data without a request."""
    if not hasattr(select, "poll"):
        return bool(select.select([sock], [], [], 0)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def tls_context(verify: bool | str | os.PathLike[str]) -> ssl.SSLContext:
    """TLS context for ``verify``: True, False, or a path of authorities."""
    if isinstance(verify, bool):
        context = ssl.create_default_context()
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context
    wanted = "verify must be True, False, or a file or folder of authorities in PEM"
    if not isinstance(verify, str | os.PathLike):
        raise ArgumentError(f"{wanted}; got {verify!r}", "verify")
    path = Path(verify)
    if not path.exists():
        raise ArgumentError(f"{wanted}; {path} does not exist", "verify")
    if path.is_dir():
        return ssl.create_default_context(capath=path)
    try:
        return ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ArgumentError(f"{wanted}; {path} cannot be used: {error}", "verify") from None
