"""Logins, shared by a process's objects with the same service, name and password."""

from __future__ import annotations

import hashlib
import os
import threading
import urllib.parse
import weakref
from typing import Any, Final, TypeAlias

from .address import Address
from .connections import Connections
from .credentials import Login, Secret
from .errors import AuthenticationError
from .flows import Flow, carried_out, repeated
from .messages import Request, parsed

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
                connections = Connections(self._address, self._verify)
                try:
                    steps = carried_out(login(self._account), lambda one: repeated(one, None, timeout, deadline))
                    self._token = Secret(connections.run(steps))
                finally:
                    connections.close()
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
                connections = Connections(self._address, self._verify)
                connections.run(repeated(Request("POST", "/logout"), self._token, timeout, 0.0))
                connections.close()
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


def shared(address: Address, verify: Verify, account: Login) -> SharedLogin:
    """The login of this process for an account."""
    password = hashlib.sha256(account.password.reveal().encode("utf-8", "surrogatepass")).digest()
    key = address, str(verify), account.username, password
    return _KNOWN.setdefault(key, SharedLogin(address, verify, account))


def login(account: Login) -> Flow[str]:
    """Get a new token."""
    request = Request("POST", "/login/access-token", _form(account), password=account.password)
    return parsed(request, (yield request), _token, "the answer holds no access_token")


def _form(account: Login) -> bytes:
    return urllib.parse.urlencode({"username": account.username, "password": account.password.reveal()}).encode("ascii")


def _token(answer: Any) -> str:
    found = answer["access_token"]
    if not isinstance(found, str):
        raise TypeError
    return found
