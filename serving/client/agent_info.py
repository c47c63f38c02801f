"""Facts about an agent that its client knows, from arguments or from the service's agent object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from . import values
from .errors import ArgumentError, AuthenticationError, NotFound
from .logins import Session
from .messages import Request, an_object
from .values import Size

SUPPORTED_MODELS: Final[list[str]] = ["dqn", "ppo", "ddpg", "rainbow"]
"""Models of the original interface."""
OTHER_MODELS: Final[list[str]] = [
    "a2c",
    "c51",
    "crossq",
    "impala",
    "iqn",
    "naf",
    "pqn",
    "qr_dqn",
    "redq",
    "sac",
    "td3",
    "tqc",
    "trpo",
    "vpg",
]
"""Further models that axonrl's service hosts."""

DISCRETE: Final = {"dqn": True, "rainbow": True, "ddpg": False}
"""Models with one kind of action only, to whether it is discrete."""


@dataclasses.dataclass(frozen=True)
class Known:
    """Known facts; None while unknown. ``config``: hyperparameters and sizes from the service."""

    model: str | None = None
    state_size: Size | None = None
    action_size: Size | None = None
    discrete: bool | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def sent_size(self) -> Size | None:
        """Number of numbers in which an action is sent, or their shape."""
        if self.discrete is None:
            return None
        return 1 if self.discrete else self.action_size


class Facts:
    """Facts about one agent, and the requests that find them out.

    Args:
        session: sends requests.
        path: path of the agent.
        first: facts that are known from the start.
    """

    def __init__(self, session: Session, path: str, first: Known) -> None:
        self._session, self._path = session, path
        self.first = self.known = first
        self._may_ask = True

    async def info(self, most: float | None = None) -> dict[str, Any]:
        """Get the agent object, and store its facts; ``most`` as for :meth:`.Session.send`."""
        request = Request("GET", self._path)
        try:
            return self.note(await self._session.ask(request, an_object, most=most))
        except NotFound:
            self.forget()
            raise

    async def exists(self, most: float | None = None) -> bool:
        """Whether the agent exists and is completely created."""
        try:
            agent = await self.info(most)
        except NotFound:
            return False
        return agent.get("status") != "creating"

    async def is_active(self, most: float | None = None) -> bool:
        """Whether it acts and learns."""
        return bool((await self.info(most)).get("is_active"))

    async def fact(self, name: str) -> Any:
        """A stored fact; asks the service if it is unknown."""
        if getattr(self.known, name) is None:
            await self.info()
        return getattr(self.known, name)

    async def learn(self) -> Known:
        """The facts, after asking for unknown sizes; a token that may act but not read does without."""
        if self._may_ask and (self.known.state_size is None or self.known.discrete is None):
            try:
                await self.info()
            except AuthenticationError as error:
                if error.code != "forbidden_scope":
                    raise
            self._may_ask = False
        return self.known

    def note(self, agent: dict[str, Any]) -> dict[str, Any]:
        """Store the facts of the agent object."""
        self.known = from_agent(agent, self.known)
        self._may_ask = False
        return agent

    def forget(self) -> None:
        """Drop all facts: the agent is gone, and another may get its name."""
        self.known = self.first
        self._may_ask = True


def from_arguments(config: dict[str, Any]) -> Known:
    """Facts that are among the constructor's keywords, which these leave.

    Raises:
        ArgumentError: a value is invalid, or given under two names.
    """
    names = ("state_size", "obs_size", "action_size", "agent_model")
    state_size, obs_size, action_size, model = (config.pop(name, None) for name in names)
    state_size = values.either(state_size, obs_size, "state_size", "obs_size")
    model = None if model is None else checked_model(model)
    return Known(
        model,
        None if state_size is None else values.size(state_size, "state_size"),
        None if action_size is None else values.size(action_size, "action_size"),
        None if model is None else DISCRETE.get(model),
    )


def checked_model(name: Any) -> str:
    """Check the name of a model."""
    models = [*SUPPORTED_MODELS, *OTHER_MODELS]
    if isinstance(name, str) and name.lower() in models:
        return name.lower()
    raise ArgumentError(f"agent_model must be one of {', '.join(models)}; got {name!r}", "agent_model")


def from_agent(agent: Mapping[str, Any], before: Known) -> Known:
    """Facts from the agent object; missing ones keep their values."""
    config = agent.get("config")
    config = dict(config) if isinstance(config, Mapping) else dict(before.config)
    model = agent.get("model")
    model = model if isinstance(model, str) else before.model
    discrete = agent.get("discrete", config.get("discrete"))
    if not isinstance(discrete, bool):
        discrete = DISCRETE.get(model.lower(), before.discrete) if model is not None else before.discrete
    state_size = _size(config.get("state_size", config.get("obs_size")))
    if state_size is None:
        state_size = _box_size(config.get("observation_space", config.get("obs_space")))
        if state_size is None and "config" not in agent:
            state_size = before.state_size
    action_size = _size(config.get("action_size"))
    if action_size is None:
        action_size = before.action_size
    return Known(model, state_size, action_size, discrete, config)


def hparams(config: Mapping[str, Any]) -> dict[str, int | float | str]:
    """Hyperparameters as numbers and strings: True becomes 1, anything else its text."""
    found: dict[str, int | float | str] = {}
    for name, value in config.items():
        if isinstance(value, bool):
            found[name] = int(value)
        else:
            found[name] = value if isinstance(value, int | float | str) else str(value)
    return found


def _size(value: Any) -> Size | None:
    if isinstance(value, list | tuple):
        return tuple(value) if all(type(item) is int for item in value) else None
    return value if type(value) is int else None


def _box_size(space: Any) -> Size | None:
    """Size of a Box in axonrl's JSON form; None for other spaces, whose observations the service checks."""
    if not isinstance(space, Mapping) or space.get("type") != "Box":
        return None
    shape = _size(space.get("shape"))
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 else shape
