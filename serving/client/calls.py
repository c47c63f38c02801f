"""The calls of one agent without I/O: requests, and the meaning of answers."""

from __future__ import annotations

import secrets
import urllib.parse
import warnings
from collections.abc import Mapping
from typing import Any

from . import agent_info, state, values
from .agent_info import OTHER_MODELS, SUPPORTED_MODELS, Known
from .credentials import Secret
from .errors import ArgumentError, AuthenticationError, NotFound, ServiceError
from .messages import Flow, Request, Response, content, unexpected
from .state import EncodedAgentState
from .values import Size

_POLL = 0.25  # seconds
_POLLS = 480


class Calls:
    """The calls of one agent, each as a :data:`~.messages.Flow`.

    Args:
        name: the agent's name.
        description: for ``create``.
        hyperparameters: for ``create``; sizes and the model are taken out of them.
        environment: the stream of experience that steps belong to.
    """

    def __init__(
        self, name: str, description: str | None, hyperparameters: Mapping[str, Any], environment: str
    ) -> None:
        if not isinstance(name, str) or name in ("", ".", ".."):
            raise ArgumentError(f"agent_name must be a name, got {name!r}", "agent_name")
        description = "" if description is None else description
        if not isinstance(description, str):
            raise ArgumentError(f"description must be a string, got {description!r}", "description")
        self.name = name
        self.description = description
        self.environment = checked_environment(environment)
        config = dict(hyperparameters)
        state_size, obs_size = config.pop("state_size", None), config.pop("obs_size", None)
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        action_size, model = config.pop("action_size", None), config.pop("agent_model", None)
        self._first = agent_info.from_arguments(
            _model(model) if model is not None else None,
            None if state_size is None else values.size(state_size, "state_size"),
            None if action_size is None else values.size(action_size, "action_size"),
        )
        self.known = self._first
        self.given = {name: values.setting(value, name) for name, value in config.items()}
        self._may_ask = True
        self._path = f"/agents/{urllib.parse.quote(name, safe='')}"
        self._snapshot = f"/snapshots/{urllib.parse.quote(name, safe='')}"

    # -- the agent itself ---------------------------------------------------------------------------------------------

    def info(self) -> Flow[dict[str, Any]]:
        """Get the agent object, and store its facts."""
        request = Request("GET", self._path)
        try:
            answer = yield request
        except NotFound:
            self.forget()
            raise
        return self._learned(_object(content(request, answer), request, answer))

    def sync(self) -> Flow[None]:
        """Update the stored facts from the service."""
        yield from self.info()

    def fact(self, name: str) -> Flow[Any]:
        """A stored fact; asks the service if it is unknown."""
        if getattr(self.known, name) is None:
            yield from self.info()
        return getattr(self.known, name)

    def hparams(self) -> Flow[dict[str, int | float | str]]:
        """Hyperparameters and sizes."""
        if not self.known.config and not self.given:
            yield from self.info()
        return agent_info.hparams(self.known.config or self.given)

    def exists(self) -> Flow[bool]:
        """Whether the agent exists, and its creation is finished."""
        try:
            agent = yield from self.info()
        except NotFound:
            return False
        return agent.get("status") != "creating"

    def is_active(self) -> Flow[bool]:
        """Whether the agent acts and learns."""
        agent = yield from self.info()
        return bool(agent.get("is_active"))

    def set_active(self, active: bool) -> Flow[None]:
        """Activate or deactivate the agent."""
        yield Request("PATCH", self._path, values.encode({"is_active": active}))

    def loss(self) -> Flow[dict[str, Any]]:
        """Loss and metrics of the last update."""
        request = Request("GET", f"{self._path}/loss")
        answer = yield request
        return _object(content(request, answer), request, answer)

    def create(
        self,
        state_size: Any,
        action_size: Any,
        agent_model: str | None,
        active: bool,
        settings: Mapping[str, Any],
    ) -> Flow[dict[str, Any]]:
        """Create the agent, and wait until it acts.

        ``settings``: this call's; None omits one. They override the constructor's arguments.
        """
        config, first = dict(self.given), self._first
        model = _model(first.model if agent_model is None else agent_model)
        config |= {name: values.setting(value, name) for name, value in settings.items() if value is not None}
        if config.get("observation_space") is None:
            config["state_size"] = values.size(first.state_size if state_size is None else state_size, "state_size")
        elif state_size is not None:
            raise ArgumentError("state_size and observation_space exclude each other", "state_size")
        config["action_size"] = values.size(first.action_size if action_size is None else action_size, "action_size")
        active = values.flag(active, "active")
        body = {"name": self.name, "model": model, "description": self.description, "config": config}
        sent = values.encode({**body, "is_active": active})
        request = Request("POST", "/agents/", sent, key=new_key(), slow=True)
        answer = yield request
        agent = _object(content(request, answer), request, answer)
        for _ in range(_POLLS):
            if agent.get("status") != "creating":
                break
            request = Request("GET", self._path, after=_POLL)
            answer = yield request
            agent = _object(content(request, answer), request, answer)
        if agent.get("status") in ("creating", "failed"):
            message = f"The agent {self.name} was not created: its status is {agent['status']}"
            raise ServiceError(message, answer.status, "agent_failed", message, answer.request_id)
        return self._learned(agent)

    def remove(self, agent_name: Any, quite: bool) -> Flow[bool]:
        """Delete the agent, if ``agent_name`` is its name."""
        if agent_name != self.name:
            message = f"agent_name must be {self.name!r} for this agent to be removed, got {agent_name!r}"
            if not quite:
                raise ArgumentError(message, "agent_name")
            warnings.warn(f"{message}. Nothing was removed.", RuntimeWarning, stacklevel=4)
            return False
        try:
            yield Request("DELETE", self._path)
        except NotFound:
            return False
        finally:
            self.forget()
        return True

    # -- states -------------------------------------------------------------------------------------------------------

    def get_state(self) -> Flow[EncodedAgentState]:
        """Download everything that the agent has learned."""
        request = Request("GET", self._snapshot, slow=True)
        answer = yield request
        try:
            return state.from_json(content(request, answer))
        except ArgumentError as error:
            raise unexpected(request, answer, str(error)) from None

    def upload_state(self, given: Any) -> Flow[bool]:
        """Replace the agent's state."""
        if not isinstance(given, EncodedAgentState):
            message = f"state must be an EncodedAgentState, got {type(given).__name__}"
            raise ArgumentError(message, "state")
        body = values.encode(state.to_json(given))
        yield Request("POST", self._snapshot, body, key=new_key(), slow=True)
        return True

    def episodes(self, last: Any) -> Flow[list[dict[str, Any]]]:
        """The last finished episodes."""
        last = _one(values.size(last, "last"), "last")
        request = Request("GET", f"{self._path}/episodes?limit={last}")
        answer = yield request
        found = content(request, answer)
        if not isinstance(found, list):
            raise unexpected(request, answer, "the answer is not a list")
        return found

    # -- facts ------------------------------------------------------------------------------------------------

    def forget(self) -> None:
        """Drop all facts: the agent is gone, and another may get its name."""
        self.known = self._first
        self._may_ask = True

    def learn(self) -> Flow[Known]:
        """The facts, after asking for unknown sizes; a token that may act but not read does without."""
        if self._may_ask and (self.known.state_size is None or self.known.discrete is None):
            try:
                yield from self.info()
            except AuthenticationError as error:
                if error.code != "forbidden_scope":
                    raise
            self._may_ask = False
        return self.known

    def _learned(self, agent: dict[str, Any]) -> dict[str, Any]:
        self.known = agent_info.from_agent(agent, self.known)
        self._may_ask = False
        return agent


def login(username: str, password: Secret) -> Flow[str]:
    """Get a token."""
    request = Request("POST", "/login/access-token", _form(username, password), login=True)
    answer = yield request
    found = _object(content(request, answer), request, answer).get("access_token")
    if not isinstance(found, str):
        raise unexpected(request, answer, "the answer holds no access_token")
    return found


def _form(username: str, password: Secret) -> bytes:
    return urllib.parse.urlencode({"username": username, "password": password.reveal()}).encode("ascii")


def new_key() -> str:
    """A unique idempotency key, even after forks and copies."""
    return secrets.token_hex(16)


def checked_key(key: Any) -> str:
    """Check a user's idempotency key: 1 to 255 printable ASCII characters."""
    if isinstance(key, str) and 0 < len(key) < 256 and key.isascii() and key.isprintable() and key == key.strip():
        return key
    raise ArgumentError(f"key must be 1 to 255 printable ASCII characters, got {values.shortened(key)}", "key")


def checked_environment(name: Any, where: str = "environment") -> str:
    """Check the name of a stream of experience."""
    if isinstance(name, str) and 0 < len(name) <= 128 and name.isprintable():
        return name
    raise ArgumentError(f"{where} must be a name of 1 to 128 printable characters, got {values.shortened(name)}", where)


def _model(name: Any) -> str:
    models = [*SUPPORTED_MODELS, *OTHER_MODELS]
    if isinstance(name, str) and name.lower() in models:
        return name.lower()
    raise ArgumentError(f"agent_model must be one of {', '.join(models)}; got {name!r}", "agent_model")


def _one(size: Size, where: str) -> int:
    if isinstance(size, int):
        return size
    raise ArgumentError(f"{where} must be a positive integer, got {size!r}", where)


def _object(value: Any, request: Request, answer: Response) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise unexpected(request, answer, "the answer is not an object")
