"""I/O of a RemoteAgent: credentials, connections, retries, order."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, TypeVar

from . import address, credentials, logins, values
from .connections import Connections
from .credentials import Login, Secret
from .errors import AuthenticationError, ServiceError
from .experience import Experience
from .fair_lock import Turns
from .logins import SharedLogin
from .messages import Flow, Request, Response, carried_out

_Result = TypeVar("_Result")
_Self = TypeVar("_Self", bound="Session")

SLOW: Final = 120.0
"""Seconds that creations and transfers of states may take."""


class Settings:
    """Checked arguments of a RemoteAgent, except credentials; pickles keep these."""

    def __init__(
        self,
        agent_name: str,
        description: str | None,
        url: str | None,
        timeout: float,
        retry_deadline: float,
        environment: str | None,
        verify: bool | str | os.PathLike[str],
        hyperparameters: Mapping[str, Any],
    ) -> None:
        credentials.refuse_misspelt(hyperparameters)
        self.address = address.find(url)
        self.timeout = values.duration(timeout, "timeout", zero=False)
        self.retry_deadline = values.duration(retry_deadline, "retry_deadline", zero=True)
        self.verify = verify
        self.environment = environment
        self.hyperparameters = dict(hyperparameters)
        self.calls = Experience(agent_name, description, hyperparameters, environment or random_environment())

    def timeout_of(self, request: Request) -> float:
        """Timeout of a request, in seconds."""
        return max(self.timeout, SLOW) if request.slow else self.timeout

    def credentials(
        self, access_token: str | None, username: str | None, password: str | None
    ) -> tuple[Secret | None, SharedLogin | None]:
        """The given token, or the login that gets one.

        Raises:
            ArgumentError: there are no credentials.
        """
        found = credentials.find(access_token, username, password)
        if isinstance(found, Login):
            return None, logins.shared(self.address, self.verify, found)
        return found, None

    def new_token(self, access_token: str | None, username: str | None, password: str | None) -> Secret:
        """The given token, or one from a separate login; raises like :func:`logins.log_in`."""
        found = credentials.find(access_token, username, password)
        if isinstance(found, Login):
            return logins.log_in(self.address, self.verify, found, self.timeout, self.retry_deadline)
        return found

    def arguments(self) -> dict[str, Any]:
        """Arguments that build an equal object."""
        names = ("timeout", "retry_deadline", "environment", "verify")
        found = {name: getattr(self, name) for name in names}
        return {
            "agent_name": self.calls.name,
            "description": self.calls.description,
            "url": self.address.url,
            **found,
            **self.hyperparameters,
        }


class Session:
    """Carries out flows.

    Args:
        settings: settings of the agent.
        access_token: see ``RemoteAgent``, also for the next two.
        username: of the account.
        password: of the account.
    """

    def __init__(
        self, settings: Settings, access_token: str | None, username: str | None, password: str | None
    ) -> None:
        self._settings = settings
        self._calls = settings.calls
        self._connections = Connections(settings.address, settings.verify)
        self._turns = Turns()
        self._process = os.getpid()
        self._token, self._login = settings.credentials(access_token, username, password)
        if self._login is not None:
            self._token = self._login.join(self, settings.timeout, settings.retry_deadline)

    @property
    def agent_name(self) -> str:
        """Name of the agent in the service."""
        return self._calls.name

    @property
    def description(self) -> str:
        """Description for :meth:`create_agent`."""
        return self._calls.description

    @property
    def environment(self) -> str:
        """The stream of experience that steps belong to."""
        return self._calls.environment

    @property
    def url(self) -> str:
        """URL of the service, with ``/api/v1``."""
        return self._settings.address.url

    def get_access_token(
        self, username: str | None = None, password: str | None = None, access_token: str | None = None
    ) -> str:
        """A token: the given one, or a new one for username and password; without either, from the environment.

        A new token belongs to the caller: :meth:`close` does not end it.

        Raises:
            ValueError: no credentials.
            AuthenticationError: they were refused.
        """
        return self._settings.new_token(access_token, username, password).reveal()

    def close(self) -> None:
        """Close the connections, and log out, unless another object of this process uses the same login.

        The agent stays; a later call connects and logs in again.
        """
        if self._login is not None:
            self._token = None
            self._login.leave(self, self._settings.timeout)
        self._connections.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        model = self._calls.known.model
        known = f", agent_model={model!r}" if model is not None else ""
        return f"{type(self).__name__}({self._calls.name!r}, url={self._settings.address.url!r}{known})"

    def __getstate__(self) -> dict[str, Any]:
        return self._settings.arguments()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _in_order(self, flow: Flow[_Result]) -> _Result:
        """Carry out a call of this environment, after earlier ones."""
        if self._process != os.getpid():  # a fork: another environment, and a lock that its parent may hold
            self._process = os.getpid()
            self._turns = Turns()
            if self._settings.environment is None:
                self._calls.environment = random_environment()
        with self._turns:
            return self._do(flow)

    def _do(self, flow: Flow[_Result], *, timeout: float | None = None, retry_deadline: float | None = None) -> _Result:
        """Carry out a flow's requests; returns or raises its result.

        Args:
            flow: the call.
            timeout: seconds; None: the session's.
            retry_deadline: seconds; None: the session's.
        """
        deadline = self._settings.retry_deadline if retry_deadline is None else retry_deadline
        return carried_out(flow, lambda request: self._exchange(request, timeout, deadline))

    def _exchange(self, request: Request, timeout: float | None, deadline: float) -> Response | ServiceError:
        """Outcome of a request; with a new token if the first has expired."""
        seconds = self._settings.timeout_of(request) if timeout is None else timeout
        login, token = self._login, self._token
        if login is None:
            return self._connections.exchange(request, token, seconds, deadline)
        try:
            if token is None:
                token = self._token = login.join(self, seconds, deadline)
            outcome = self._connections.exchange(request, token, seconds, deadline)
            if isinstance(outcome, AuthenticationError):
                other = login.instead_of(token, outcome, self, seconds, deadline)
                if other is not None:
                    self._token = other
                    outcome = self._connections.exchange(request, other, seconds, deadline)
        except ServiceError as error:  # from a login
            return error
        return outcome


def random_environment() -> str:
    """A unique name."""
    return f"e{secrets.token_hex(6)}"
