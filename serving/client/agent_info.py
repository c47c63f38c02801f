"""A client's knowledge about its agent, from arguments or from the service's agent object."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from .values import Size

SUPPORTED_MODELS: Final[list[str]] = ["dqn", "ppo", "ddpg", "rainbow"]
"""Models of the original interface."""
OTHER_MODELS: Final[list[str]] = ["a2c", "c51", "impala", "iqn", "naf", "qr_dqn", "redq", "sac", "td3", "trpo", "vpg"]
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
