"""Sessions: requests with a token, or with that of a login, which objects of a process share."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import urllib.parse
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from .address import Address
from .connections import Connections
from .credentials import Login, Secret
from .errors import AuthenticationError, ServiceError
from .messages import Request, Response, Result, parse_answer
from .retries import Transport, run, send_with_retries

_SLOW: Final = 120.0
"""Seconds that creations and transfers of states may take."""
Verify: TypeAlias = "bool | str | os.PathLike[str]"


class SharedLogin:
    """A token for a name and a password, until the last object that uses it is closed.

    An object dropped without being closed leaves the token to the next. A fork uses its parent's token, and never ends
    it. Thread-safe: one thread logs in, the others wait.

    Args:
        address: address of the service.
        verify: see ``RemoteAgent``.
        account: name and password.
    """

    def __init__(self, address: Address, verify: Verify, account: Login) -> None:
        self._address, self._verify, self._account = address, verify, account
        self._users: weakref.WeakSet[object] = weakref.WeakSet()
        self._token: Secret | None = None
        self._lock, self._process, self._inherited = threading.Lock(), os.getpid(), False

    def join(self, user: object, timeout: float, deadline: float, expired: Secret | None = None) -> Secret:
        """The token; logs in if there is none.

        Args:
            user: object that uses it from now on.
            timeout: seconds of an attempt.
            deadline: seconds after which no further attempt begins.
            expired: a token that has expired.

        Raises:
            ServiceError: the login was refused, or not answered.
        """
        with self._turn():
            if self._token is None or self._token is expired:
                self._forget()
                with contextlib.closing(Connections(self._address, self._verify)) as connections:
                    self._token = Secret(run(new_token(connections, self._account, timeout, deadline)))
                self._inherited = False
                _OPEN.add(self)
            self._users.add(user)
            return self._token

    def instead_of(
        self, token: Secret, refused: AuthenticationError, user: object, timeout: float, deadline: float
    ) -> Secret | None:
        """A new token for an expired one; see :meth:`join`.

        A revoked token is not replaced for its users; objects that join from now on log in anew.
        """
        if refused.code == "token_expired":
            return self.join(user, timeout, deadline, expired=token)
        with self._turn():
            if refused.code == "invalid_token" and self._token is token:
                self._forget()
        return None

    def leave(self, user: object, timeout: float) -> None:
        """End the login if no other object uses it. If the service does not answer, it ends by idling."""
        with self._turn():
            self._users.discard(user)
            if self._token is None or self._users:
                return
            if not self._inherited:
                with (
                    contextlib.suppress(ServiceError),
                    contextlib.closing(Connections(self._address, self._verify)) as connections,
                ):
                    run(send_with_retries(connections, Request("POST", "/logout"), self._token, timeout, 0.0))
            self._forget()

    def _forget(self) -> None:
        self._token = None
        _OPEN.discard(self)

    def _turn(self) -> threading.Lock:
        if self._process != os.getpid():  # a fork: its parent may hold the lock
            self._lock, self._process, self._inherited = threading.Lock(), os.getpid(), True
        return self._lock


_KNOWN: Final[weakref.WeakValueDictionary[object, SharedLogin]] = weakref.WeakValueDictionary()
_OPEN: Final[set[SharedLogin]] = set()
"""Logins with a token, even if no object uses them."""


def shared_login(address: Address, verify: Verify, account: Login) -> SharedLogin:
    """The login of this process for an account."""
    password = hashlib.sha256(account.password.reveal().encode("utf-8", "surrogatepass")).digest()
    key = address, str(verify), account.username, password
    return _KNOWN.setdefault(key, SharedLogin(address, verify, account))


class Session:
    """Sends requests with a token, or with that of a login, which it renews.

    Args:
        transport: connections to the service.
        token: the token; None for that of a login.
        login: the login; None for a token.
        timeout: seconds of an attempt.
        deadline: seconds after which no further attempt begins.
    """

    def __init__(
        self, transport: Transport, token: Secret | None, login: SharedLogin | None, timeout: float, deadline: float
    ) -> None:
        self.transport, self._token, self._login = transport, token, login
        self.limits = timeout, deadline

    async def ask(
        self, request: Request, parse: Callable[[Any], Result], complaint: str = "", most: float | None = None
    ) -> Result:
        """Parse the successful answer to a request; arguments as of :meth:`send` and :func:`.parse_answer`."""
        return parse_answer(request, await self.send(request, most), parse, complaint)

    async def send(self, request: Request, most: float | None = None) -> Response:
        """The successful answer to a request; logs in if there is no token, and again if it has expired.

        Args:
            request: the request.
            most: seconds within which it is answered or not, without a retry; None for the session's limits.

        Raises:
            ServiceError: the service refused, or did not answer.
        """
        timeout, deadline = self.limits if most is None else (min(most, self.limits[0]), 0.0)
        limits = max(timeout, _SLOW) if request.slow else timeout, deadline
        transport, login, token = self.transport, self._login, self._token
        if login is None:
            return await send_with_retries(transport, request, token, *limits)
        if token is None:
            token = self._token = await transport.call(lambda: login.join(self, *limits))
        try:
            return await send_with_retries(transport, request, token, *limits)
        except AuthenticationError as error:
            refused, expired = error, token  # the lambda outlives the clause
            other = await transport.call(lambda: login.instead_of(expired, refused, self, *limits))
            if other is None:
                raise
        self._token = other
        return await send_with_retries(transport, request, other, *limits)

    def log_in(self) -> None:
        """Get the login's token now, if there is a login; raises ServiceError."""
        if self._login is not None:
            self._token = self._login.join(self, *self.limits)

    def leave(self) -> None:
        """End the login, unless another object of this process uses it. A later request logs in again."""
        if self._login is not None:
            self._token = None
            self._login.leave(self, self.limits[0])


async def new_token(transport: Transport, account: Login, timeout: float, deadline: float) -> str:
    """Get a new token; see :func:`.send_with_retries`."""
    form = urllib.parse.urlencode({"username": account.username, "password": account.password.reveal()})
    request = Request("POST", "/login/access-token", form.encode("ascii"), password=account.password)
    answer = await send_with_retries(transport, request, None, timeout, deadline)
    return parse_answer(request, answer, _token, "the answer holds no access_token")


def _token(answer: Any) -> str:
    found = answer["access_token"]
    if not isinstance(found, str):
        raise TypeError
    return found
