"""Operations of an agent, each as requests and the meaning of their answers; both clients carry them out."""

from __future__ import annotations

import dataclasses
import os
import secrets
import urllib.parse
import warnings
from typing import Any, ClassVar

from . import address, credentials, logins, state, values
from .address import Address
from .credentials import Login, Secret
from .errors import ArgumentError, NotFound
from .logins import Session, Verify
from .messages import Request, a_list, an_object
from .operations import attribute, operation
from .retries import Transport
from .state import EncodedAgentState
from .values import Size


class Calls:
    """The operations of an agent, except experience; arguments as of ``RemoteAgent``."""

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
        where = address.find(url)
        timeout = values.duration(timeout, "timeout", zero=False)
        retry_deadline = values.duration(retry_deadline, "retry_deadline", zero=True)
        if not isinstance(agent_name, str) or agent_name in ("", ".", ".."):
            raise ArgumentError(f"agent_name must be a name, got {agent_name!r}", "agent_name")
        description = "" if description is None else description
        self._name, self._url = agent_name, where.url
        own: dict[str, Any] = {"agent_name": agent_name, "description": description, "url": where.url}
        own |= {"environment": environment, "timeout": timeout, "retry_deadline": retry_deadline, "verify": verify}
        self._arguments = {**own, **hyperparameters}  # without credentials: for pickling
        self._environment = environment or random_environment()
        self._given = given = {name: values.setting(value, name) for name, value in hyperparameters.items()}
        obs_size = given.pop("obs_size", None)
        given["state_size"] = values.either(given.get("state_size"), obs_size, "state_size", "obs_size")
        self._first = {name: _fact(given.pop(name, None)) for name in ("state_size", "action_size", "agent_model")}
        """Facts that are known from the start."""
        self._facts, self._config = self._first, dict[str, Any]()
        quoted = urllib.parse.quote(agent_name, safe="")
        self._path, self._snapshot = f"/agents/{quoted}", f"/snapshots/{quoted}"
        found = credentials.find(access_token, username, password)
        token = found if isinstance(found, Secret) else None
        login = logins.shared_login(where, verify, found) if isinstance(found, Login) else None
        self._session = Session(self._connect(where, verify), token, login, timeout, retry_deadline)
        if not self._awaits:
            self._session.log_in()

    def _connect(self, where: Address, verify: Verify) -> Transport:
        raise NotImplementedError

    @property
    def agent_name(self) -> str:
        """Name of the agent in the service."""
        return self._name

    @property
    def description(self) -> str:
        """Description for :meth:`create_agent`."""
        return str(self._arguments["description"])

    @property
    def environment(self) -> str:
        """The stream of experience that steps belong to."""
        return self._environment

    @property
    def url(self) -> str:
        """URL of the service, with ``/api/v1``."""
        return self._url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, url={self.url!r})"

    def __getstate__(self) -> dict[str, Any]:
        return self._arguments

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @operation
    async def create_agent(
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
    ) -> dict[str, Any]:
        """Create the agent; when this returns, it acts.

        Args:
            state_size: number of numbers in an observation; a tuple for a shape. It, ``action_size`` and
                ``agent_model`` default to the constructor's arguments.
            action_size: number of actions, or of numbers in an action; a tuple for a shape.
            agent_model: one of ``SUPPORTED_MODELS`` or ``OTHER_MODELS``.
            active: whether it acts and learns at once.
            obs_size: another name of ``state_size``.
            discrete: whether actions are integers, for models that can do either.
            action_low: lower bound of the numbers of an action, or a list with one for each; 0 unless it is given.
            action_high: upper bound, in the same form; 1 unless it is given.
            observation_space: in axonrl's JSON form of a space, instead of ``state_size``.

        Returns:
            The agent object.

        Raises:
            Conflict: the name is taken, or the quota used up.
            InvalidRequest: an unknown model, an invalid size or hyperparameter; a ValueError.
        """
        state_size = values.either(state_size, obs_size, "state_size", "obs_size")
        first = self._first if observation_space is None else {**self._first, "state_size": None}
        settings = {
            **{"discrete": discrete, "observation_space": observation_space},
            **{"action_low": action_low, "action_high": action_high},
            **{"state_size": first["state_size"] if state_size is None else state_size},
            **{"action_size": first["action_size"] if action_size is None else action_size},
        }
        given = {name: values.setting(value, name) for name, value in settings.items() if value is not None}
        model = first["agent_model"] if agent_model is None else agent_model
        body: dict[str, Any] = {"name": self._name, "model": model, "description": self.description}
        body |= {"config": {**self._given, **given}, "is_active": values.flag(active, "active")}
        request = Request("POST", "/agents/", values.encode(body), key=new_key(), slow=True)
        return self._note(await self._session.ask(request, an_object))

    @operation
    async def remove(self, *, agent_name: str, quite: bool = True) -> bool:
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
            warnings.warn(f"{message}. Nothing was removed.", RuntimeWarning, stacklevel=5)
            return False
        try:
            await self._session.send(Request("DELETE", self._path))
        except NotFound:
            return False
        finally:
            self._forget()
        return True

    @attribute
    async def exists(self) -> bool:
        """Whether the agent exists and is completely created. A refused token raises."""
        return await self._exists()

    @attribute
    async def is_active(self) -> bool:
        """Whether it acts and learns."""
        return await self._is_active()

    @operation
    async def activate(self) -> None:
        """Let it act and learn."""
        await self._session.send(Request("PATCH", self._path, values.encode({"is_active": True})))

    @operation
    async def deactivate(self) -> None:
        """Deactivate the agent: it takes no memory, and ``act`` and ``step`` raise ``Conflict``."""
        await self._session.send(Request("PATCH", self._path, values.encode({"is_active": False})))

    @attribute
    async def hparams(self) -> dict[str, int | float | str]:
        """Hyperparameters and sizes, as far as known; asks once if none are."""
        if not self._config and not self._given:
            await self._info()
        values = (self._config or self._given).items()
        numbers = {name: int(value) if isinstance(value, bool) else value for name, value in values}
        return {name: one if isinstance(one, int | float | str) else str(one) for name, one in numbers.items()}

    @operation
    async def info(self) -> dict[str, Any]:
        """The agent object: its configuration, status and counters."""
        return await self._info()

    @operation
    async def sync(self) -> None:
        """Update model, sizes and hyperparameters from the service."""
        await self._info()

    @attribute
    async def state_size(self) -> Size:
        """Number of numbers in an observation, or its shape; None for a Dict of observations."""
        return await self._fact("state_size")  # type: ignore[no-any-return]

    obs_size = state_size

    @attribute
    async def action_size(self) -> Size:
        """Number of actions, or of numbers in an action, or their shape."""
        return await self._fact("action_size")  # type: ignore[no-any-return]

    @attribute
    async def agent_model(self) -> str:
        """Model, such as ``"dqn"``."""
        return await self._fact("agent_model")  # type: ignore[no-any-return]

    @attribute
    async def discrete(self) -> bool:
        """Whether actions are integers."""
        return await self._fact("discrete")  # type: ignore[no-any-return]

    async def _fact(self, name: str) -> Any:
        """A known fact; asks the service if it is unknown."""
        if self._facts.get(name) is None:
            await self._info()
        return self._facts[name]

    async def _info(self, most: float | None = None) -> dict[str, Any]:
        """Get the agent object, and store its facts; ``most`` as for :meth:`.Session.send`."""
        try:
            return self._note(await self._session.ask(Request("GET", self._path), an_object, most=most))
        except NotFound:
            self._forget()
            raise

    async def _exists(self, most: float | None = None) -> bool:
        try:
            return (await self._info(most)).get("status") != "creating"
        except NotFound:
            return False

    async def _is_active(self, most: float | None = None) -> bool:
        return bool((await self._info(most)).get("is_active"))

    def _note(self, agent: dict[str, Any]) -> dict[str, Any]:
        """Store the facts of the agent object."""
        self._config = config = agent.get("config", {})
        shape = config.get("observation_space", {}).get("shape")
        self._facts = {
            "state_size": _fact(config.get("state_size", config.get("obs_size", shape))),
            "action_size": _fact(config.get("action_size")),
            "agent_model": agent.get("model"),
            "discrete": agent.get("discrete"),
        }
        return agent

    def _forget(self) -> None:
        """Drop all facts: the agent is gone, and another may get its name."""
        self._facts, self._config = self._first, {}

    @attribute
    async def loss(self) -> dict[str, Any]:
        """Loss and metrics of the last update, None where not finite; empty before the first."""
        return await self._session.ask(Request("GET", f"{self._path}/loss"), an_object)

    @operation
    async def get_state(self) -> EncodedAgentState:
        """Download everything that the agent has learned. The service allows this a few times a minute."""
        return await self._session.ask(Request("GET", self._snapshot, slow=True), state.from_json)

    @operation
    async def upload_state(self, state: EncodedAgentState) -> bool:
        """Replace the agent's state by another agent's.

        Returns:
            True.

        Raises:
            InvalidRequest: the state is for another model or other sizes, or damaged; nothing changed.
        """
        if not isinstance(state, EncodedAgentState):
            raise ArgumentError(f"state must be an EncodedAgentState, got {type(state).__name__}", "state")
        body = values.encode(dataclasses.asdict(state))
        await self._session.send(Request("POST", self._snapshot, body, key=new_key(), slow=True))
        return True

    @operation
    async def episodes(self, last: int = 100) -> list[dict[str, Any]]:
        """The last finished episodes: return, length, kind of end, environment and time."""
        return await self._session.ask(Request("GET", f"{self._path}/episodes?limit={int(last)}"), a_list)

    @operation
    async def get_access_token(
        self, username: str | None = None, password: str | None = None, access_token: str | None = None
    ) -> str:
        """A token: the given one, or a new one for username and password; without either, from the environment.

        A new token belongs to the caller: ``close`` does not end it.

        Raises:
            ValueError: no credentials.
            AuthenticationError: they were refused.
        """
        found = credentials.find(access_token, username, password)
        if isinstance(found, Secret):
            return found.reveal()
        return await logins.new_token(self._session.transport, found, *self._session.limits)


def _fact(value: Any) -> Any:
    """A size or a model: a shape as a tuple, a name in lower case."""
    if isinstance(value, list | tuple):
        return tuple(value)
    return value.lower() if isinstance(value, str) else value


def random_environment() -> str:
    """A unique name."""
    return f"e{secrets.token_hex(6)}"


def new_key() -> str:
    """A unique idempotency key, even after forks and copies."""
    return secrets.token_hex(16)
