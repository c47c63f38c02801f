"""What both clients are made of: arguments, credentials, known facts, and the steps of an operation."""

from __future__ import annotations

import functools
import os
import secrets
import urllib.parse
from typing import Any, ClassVar, Final

from . import address, credentials, logins, values
from .agent_info import DISCRETE, OTHER_MODELS, SUPPORTED_MODELS, Known
from .credentials import Login, Secret
from .errors import ArgumentError, AuthenticationError, ServiceError
from .flows import Flow, Steps, carried_out, outcome_of, repeated
from .messages import Request, Response, Result

SLOW: Final = 120.0
"""Seconds that creations and transfers of states may take."""


class Session:
    """An agent of a service as a client knows it; arguments as of ``RemoteAgent``."""

    _awaits: ClassVar[bool] = False
    """Whether operations are awaited."""

    def __init__(
        self,
        agent_name: str,
        description: str | None = "",
        *,
        access_token: str | None = None,
        username: str | None = None,
        password: str | None = None,
        url: str | None = None,
        timeout: float = 10.0,
        retry_deadline: float = 30.0,
        environment: str | None = None,
        verify: bool | str | os.PathLike[str] = True,
        **hyperparameters: Any,
    ) -> None:
        credentials.refuse_misspelt(hyperparameters)
        self._address = address.find(url)
        self._timeout = values.duration(timeout, "timeout", zero=False)
        self._retry_deadline = values.duration(retry_deadline, "retry_deadline", zero=True)
        self._verify = verify
        if not isinstance(agent_name, str) or agent_name in ("", ".", ".."):
            raise ArgumentError(f"agent_name must be a name, got {agent_name!r}", "agent_name")
        description = "" if description is None else description
        if not isinstance(description, str):
            raise ArgumentError(f"description must be a string, got {description!r}", "description")
        self._name, self._description = agent_name, description
        self._given_environment, self._hyperparameters = environment, hyperparameters
        self._environment = checked_environment(environment or random_environment())
        config = dict(hyperparameters)
        names = ("state_size", "obs_size", "action_size", "agent_model")
        state_size, obs_size, action_size, model = (config.pop(name, None) for name in names)
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        model = None if model is None else checked_model(model)
        self._first = Known(
            model,
            None if state_size is None else values.size(state_size, "state_size"),
            None if action_size is None else values.size(action_size, "action_size"),
            None if model is None else DISCRETE.get(model),
        )
        self._known = self._first
        self._given = {name: values.setting(value, name) for name, value in config.items()}
        self._may_ask = True
        quoted = urllib.parse.quote(agent_name, safe="")
        self._path, self._snapshot = f"/agents/{quoted}", f"/snapshots/{quoted}"
        found = credentials.find(access_token, username, password)
        self._token = found if isinstance(found, Secret) else None
        self._login = logins.shared(self._address, verify, found) if isinstance(found, Login) else None
        self._open()

    def _open(self) -> None:
        """Prepare to carry out operations."""

    @property
    def agent_name(self) -> str:
        """Name of the agent in the service."""
        return self._name

    @property
    def description(self) -> str:
        """Description for :meth:`create_agent`."""
        return self._description

    @property
    def environment(self) -> str:
        """The stream of experience that steps belong to."""
        return self._environment

    @property
    def url(self) -> str:
        """URL of the service, with ``/api/v1``."""
        return self._address.url

    def __repr__(self) -> str:
        known = f", agent_model={self._known.model!r}" if self._known.model is not None else ""
        return f"{type(self).__name__}({self._name!r}, url={self.url!r}{known})"

    def __getstate__(self) -> dict[str, Any]:
        return {  # arguments that build an equal object, without credentials
            "agent_name": self._name,
            "description": self._description,
            "url": self.url,
            "timeout": self._timeout,
            "retry_deadline": self._retry_deadline,
            "environment": self._given_environment,
            "verify": self._verify,
            **self._hyperparameters,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def _steps(self, flow: Flow[Result], timeout: float | None = None, deadline: float | None = None) -> Steps[Result]:
        """The steps of an operation; its limits are the constructor's by default."""
        limits = self._timeout if timeout is None else timeout, self._retry_deadline if deadline is None else deadline
        return carried_out(flow, lambda request: self._exchange(request, *limits))

    def _exchange(self, request: Request, timeout: float, deadline: float) -> Steps[Response | ServiceError]:
        """Outcome of a request; with a new token if the first has expired."""
        limits = max(timeout, SLOW) if request.slow else timeout, deadline
        login, token = self._login, self._token
        if login is None or request.password is not None:
            return (yield from repeated(request, token, *limits))
        if token is None:
            found: Secret | ServiceError = yield functools.partial(outcome_of, login.join, self, *limits)
            if isinstance(found, ServiceError):
                return found
            token = self._token = found
        outcome = yield from repeated(request, token, *limits)
        if not isinstance(outcome, AuthenticationError):
            return outcome
        other: Secret | ServiceError | None = yield functools.partial(
            outcome_of, login.instead_of, token, outcome, self, *limits
        )
        if not isinstance(other, Secret):
            return other or outcome
        self._token = other
        return (yield from repeated(request, other, *limits))


def random_environment() -> str:
    """A unique name."""
    return f"e{secrets.token_hex(6)}"


def checked_environment(name: Any, where: str = "environment") -> str:
    """Check the name of a stream of experience."""
    if isinstance(name, str) and 0 < len(name) <= 128 and name.isprintable():
        return name
    raise ArgumentError(f"{where} must be a name of 1 to 128 printable characters, got {values.shortened(name)}", where)


def checked_model(name: Any) -> str:
    """Check the name of a model."""
    models = [*SUPPORTED_MODELS, *OTHER_MODELS]
    if isinstance(name, str) and name.lower() in models:
        return name.lower()
    raise ArgumentError(f"agent_model must be one of {', '.join(models)}; got {name!r}", "agent_model")
