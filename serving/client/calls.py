"""Operations of an agent, each as requests and the meaning of their answers; both clients carry them out."""

from __future__ import annotations

import dataclasses
import secrets
import warnings
from typing import Any, Final

from . import agent_info, credentials, logins, state, values
from .agent_info import Known
from .credentials import Secret
from .errors import ArgumentError, AuthenticationError, NotFound, ServiceError
from .flows import Flow, attribute, operation
from .messages import Request, a_list, an_object, parsed
from .session import Session, checked_model
from .state import EncodedAgentState
from .values import Size

_POLL: Final = 0.25  # seconds
_POLLS: Final = 480


class Calls(Session):
    """The operations of an agent, except experience."""

    # -- the agent ----------------------------------------------------------------------------------------------------

    @operation
    def create_agent(
        self,
        state_size: Size | None = None,
        action_size: Size | None = None,
        agent_model: str | None = None,
        active: bool = True,
        *,
        obs_size: Size | None = None,
        discrete: bool | None = None,
        action_low: Any = None,
        action_high: Any = None,
        observation_space: dict[str, Any] | None = None,
    ) -> Flow[dict[str, Any]]:
        """Create the agent; when this returns, it acts.

        Args:
            state_size: number of numbers in an observation; a tuple for a shape. It, ``action_size`` and
                ``agent_model`` default to the constructor's arguments.
            action_size: number of actions, or of numbers in an action; a tuple for a shape.
            agent_model: one of ``SUPPORTED_MODELS`` or ``OTHER_MODELS``.
            active: whether it acts and learns at once.
            obs_size: another name of ``state_size``.
            discrete: whether actions are integers, for models that can do either.
            action_low: lower bound of the numbers of an action, or a list with one for each; 0 unless given here or to
                the constructor.
            action_high: upper bound of the numbers of an action, or a list with one for each; 1 unless given.
            observation_space: in axonrl's JSON form of a space, instead of ``state_size``.

        Returns:
            The agent object.

        Raises:
            ValueError: an unknown model or invalid sizes; nothing was sent.
            Conflict: the name is taken, or the quota used up.
            InvalidRequest: a hyperparameter is invalid.
        """
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        first = self._first
        model = checked_model(first.model if agent_model is None else agent_model)
        settings = {"discrete": discrete, "observation_space": observation_space}
        settings |= {"action_low": action_low, "action_high": action_high}
        given = {name: values.setting(value, name) for name, value in settings.items() if value is not None}
        config = {**self._given, **given}
        if config.get("observation_space") is None:
            config["state_size"] = values.size(first.state_size if state_size is None else state_size, "state_size")
        elif state_size is not None:
            raise ArgumentError("state_size and observation_space exclude each other", "state_size")
        config["action_size"] = values.size(first.action_size if action_size is None else action_size, "action_size")
        body = {"name": self._name, "model": model, "description": self._description, "config": config}
        sent = values.encode({**body, "is_active": values.flag(active, "active")})
        return (yield from self._create(sent))

    def _create(self, body: bytes) -> Flow[dict[str, Any]]:
        """Send a creation, and wait until the agent acts."""
        request = Request("POST", "/agents/", body, key=new_key(), slow=True)
        answer = yield request
        agent = parsed(request, answer, an_object)
        for _ in range(_POLLS):
            if agent.get("status") != "creating":
                break
            request = Request("GET", self._path, after=_POLL)
            answer = yield request
            agent = parsed(request, answer, an_object)
        if agent.get("status") in ("creating", "failed"):
            message = f"The agent {self._name} was not created: its status is {agent['status']}"
            raise ServiceError(message, answer.status, "agent_failed", message, answer.request_id)
        return self._learned(agent)

    @operation
    def remove(self, *, agent_name: str, quite: bool = True) -> Flow[bool]:
        """Delete the agent and all that it learned, permanently.

        Args:
            agent_name: the agent's name, as a confirmation.
            quite: for another name, warn and return False instead of raising.

        Returns:
            Whether it existed.

        Raises:
            ValueError: another name, and not ``quite``.
        """
        if agent_name != self._name:
            message = f"agent_name must be {self._name!r} for this agent to be removed, got {agent_name!r}"
            if not quite:
                raise ArgumentError(message, "agent_name")
            warnings.warn(f"{message}. Nothing was removed.", RuntimeWarning, stacklevel=6)
            return False
        try:
            yield Request("DELETE", self._path)
        except NotFound:
            return False
        finally:
            self._forget()
        return True

    @attribute
    def exists(self) -> Flow[bool]:
        """Whether the agent exists and is completely created. A refused token raises."""
        return self._exists()

    @attribute
    def is_active(self) -> Flow[bool]:
        """Whether it acts and learns."""
        return self._is_active()

    @operation
    def activate(self) -> Flow[None]:
        """Let it act and learn."""
        return self._set_active(True)

    @operation
    def deactivate(self) -> Flow[None]:
        """Deactivate the agent: it takes no memory, and ``act`` and ``step`` raise ``Conflict``."""
        return self._set_active(False)

    @attribute
    def hparams(self) -> Flow[dict[str, int | float | str]]:
        """Hyperparameters and sizes, as far as known; asks once if none are."""
        if not self._known.config and not self._given:
            yield from self._info()
        return agent_info.hparams(self._known.config or self._given)

    @operation
    def info(self) -> Flow[dict[str, Any]]:
        """The agent object: its configuration, status and counters."""
        return self._info()

    @operation
    def sync(self) -> Flow[None]:
        """Update model, sizes and hyperparameters from the service."""
        yield from self._info()

    @attribute
    def state_size(self) -> Flow[Size]:
        """Number of numbers in an observation, or its shape; None for a Dict of observations."""
        return self._fact("state_size")

    obs_size = state_size

    @attribute
    def action_size(self) -> Flow[Size]:
        """Number of actions, or of numbers in an action, or their shape."""
        return self._fact("action_size")

    @attribute
    def agent_model(self) -> Flow[str]:
        """Model, such as ``"dqn"``."""
        return self._fact("model")

    @attribute
    def discrete(self) -> Flow[bool]:
        """Whether actions are integers."""
        return self._fact("discrete")

    @attribute
    def loss(self) -> Flow[dict[str, Any]]:
        """Loss and metrics of the last update, None where not finite; empty before the first."""
        request = Request("GET", f"{self._path}/loss")
        return parsed(request, (yield request), an_object)

    @operation
    def get_state(self) -> Flow[EncodedAgentState]:
        """Download everything that the agent has learned. The service allows this a few times a minute."""
        request = Request("GET", self._snapshot, slow=True)
        return parsed(request, (yield request), state.from_json)

    @operation
    def upload_state(self, state: EncodedAgentState) -> Flow[bool]:
        """Replace the agent's state by another agent's.

        Returns:
            True.

        Raises:
            InvalidRequest: the state is for another model or other sizes, or damaged; nothing changed.
        """
        if not isinstance(state, EncodedAgentState):
            raise ArgumentError(f"state must be an EncodedAgentState, got {type(state).__name__}", "state")
        body = values.encode(dataclasses.asdict(state))
        yield Request("POST", self._snapshot, body, key=new_key(), slow=True)
        return True

    @operation
    def episodes(self, last: int = 100) -> Flow[list[dict[str, Any]]]:
        """The last finished episodes: return, length, kind of end, environment and time."""
        count = values.size(last, "last")
        if not isinstance(count, int):
            raise ArgumentError(f"last must be a positive integer, got {count!r}", "last")
        request = Request("GET", f"{self._path}/episodes?limit={count}")
        return parsed(request, (yield request), a_list)

    @operation
    def get_access_token(
        self, username: str | None = None, password: str | None = None, access_token: str | None = None
    ) -> Flow[str]:
        """A token: the given one, or a new one for username and password; without either, from the environment.

        A new token belongs to the caller: ``close`` does not end it.

        Raises:
            ValueError: no credentials.
            AuthenticationError: they were refused.
        """
        found = credentials.find(access_token, username, password)
        if isinstance(found, Secret):
            return found.reveal()
        return (yield from logins.login(found))

    # -- facts --------------------------------------------------------------------------------------------------------

    def _info(self) -> Flow[dict[str, Any]]:
        """Get the agent object, and store its facts."""
        request = Request("GET", self._path)
        try:
            answer = yield request
        except NotFound:
            self._forget()
            raise
        return self._learned(parsed(request, answer, an_object))

    def _exists(self) -> Flow[bool]:
        try:
            agent = yield from self._info()
        except NotFound:
            return False
        return agent.get("status") != "creating"

    def _is_active(self) -> Flow[bool]:
        agent = yield from self._info()
        return bool(agent.get("is_active"))

    def _set_active(self, active: bool) -> Flow[None]:
        yield Request("PATCH", self._path, values.encode({"is_active": active}))

    def _fact(self, name: str) -> Flow[Any]:
        """A stored fact; asks the service if it is unknown."""
        if getattr(self._known, name) is None:
            yield from self._info()
        return getattr(self._known, name)

    def _forget(self) -> None:
        """Drop all facts: the agent is gone, and another may get its name."""
        self._known = self._first
        self._may_ask = True

    def _learn(self) -> Flow[Known]:
        """The facts, after asking for unknown sizes; a token that may act but not read does without."""
        if self._may_ask and (self._known.state_size is None or self._known.discrete is None):
            try:
                yield from self._info()
            except AuthenticationError as error:
                if error.code != "forbidden_scope":
                    raise
            self._may_ask = False
        return self._known

    def _learned(self, agent: dict[str, Any]) -> dict[str, Any]:
        self._known = agent_info.from_agent(agent, self._known)
        self._may_ask = False
        return agent


def new_key() -> str:
    """A unique idempotency key, even after forks and copies."""
    return secrets.token_hex(16)
