"""Credentials from arguments and the environment, kept out of sight."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, NoReturn

from .errors import ArgumentError

_NONE: Final = (
    "No credentials. Pass access_token, or username and password; or set AGENTS_BAR_ACCESS_TOKEN, or AGENTS_BAR_USER "
    "and AGENTS_BAR_PASS."
)
_WORDS: Final = ("access_token", "username", "password", "api_key", "auth_token", "authorization", "credentials")
_PARTS: Final = ("pass", "pasw", "pwd", "token", "secret", "credential", "apikey", "api_key", "username", "auth")


class Secret:
    """A token or a password that no ``repr``, traceback with local variables or pickle shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret text."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("tokens and passwords are not pickled")


class Login(NamedTuple):
    """Username and password for getting a token."""

    username: str
    password: Secret


def find(
    access_token: str | None = None,
    username: str | None = None,
    password: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Secret | Login:
    """The credentials to use: arguments first, then the environment; a token before a password.

    Raises:
        ArgumentError: there are none, or the token is invalid in a header. The message contains neither.
    """
    if access_token is not None:
        return token(access_token)
    if username is None and password is None and environ.get("AGENTS_BAR_ACCESS_TOKEN"):
        return token(environ["AGENTS_BAR_ACCESS_TOKEN"])
    if username is None:
        username = environ.get("AGENTS_BAR_USER") or environ.get("AGENTS_BAR_USERNAME")
    if password is None:
        password = environ.get("AGENTS_BAR_PASS") or environ.get("AGENTS_BAR_PASSWORD")
    for name, value in (("username", username), ("password", password)):
        if not value:
            raise ArgumentError(_NONE, name)
        if not isinstance(value, str):
            raise ArgumentError(f"{name} must be a string, got {type(value).__name__}", name)
    return Login(str(username), Secret(str(password)))


def token(value: Any) -> Secret:
    """Check that a header can carry a token; the error does not repeat it."""
    text = value.strip() if isinstance(value, str) else ""
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ArgumentError("access_token must be a token: printable ASCII without blanks", "access_token")
    return Secret(text)


def refuse_misspelt(names: Iterable[str]) -> None:
    """Refuse hyperparameters whose names look like credentials: they would be sent, stored and shown.

    Raises:
        ArgumentError: names the first one, not its value.
    """
    for name in names:
        lower = name.lower()
        if any(part in lower for part in _PARTS) or difflib.get_close_matches(lower, _WORDS, cutoff=0.8):
            known = "access_token, username and password"
            message = f"{name} looks like a credential and is not sent as a hyperparameter; credentials are {known}"
            raise ArgumentError(message, name)
