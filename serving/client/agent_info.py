"""What a client knows about its agent: from arguments, or from the agent object that the service sent."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from .values import Size

SUPPORTED_MODELS: Final[list[str]] = ["dqn", "ppo", "ddpg", "rainbow"]
"""Models of the interface that this one follows."""
OTHER_MODELS: Final[list[str]] = ["a2c", "c51", "impala", "iqn", "naf", "qr_dqn", "redq", "sac", "td3", "trpo", "vpg"]
"""Further models that axonrl's service hosts."""

_DISCRETE: Final = {"dqn": True, "rainbow": True, "ddpg": False}
"""Of models that have one kind of action only."""


@dataclasses.dataclass(frozen=True)
class Known:
    """Each is None while it is unknown. ``config`` are the hyperparameters and sizes as the service has them."""

    model: str | None = None
    state_size: Size | None = None
    action_size: Size | None = None
    discrete: bool | None = None
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    complete: bool = False

    @property
    def sent_size(self) -> Size | None:
        """How many numbers an action is sent as, or the shape of them."""
        if self.discrete is None:
            return None
        return 1 if self.discrete else self.action_size


def from_arguments(model: str | None, state_size: Size | None, action_size: Size | None) -> Known:
    """What the constructor was told."""
    model = model.lower() if model is not None else None
    return Known(model, state_size, action_size, _DISCRETE.get(model) if model is not None else None)


def from_agent(agent: Mapping[str, Any], before: Known) -> Known:
    """What the agent object says; what it does not say stays as before."""
    config = agent.get("config")
    config = dict(config) if isinstance(config, Mapping) else dict(before.config)
    model = agent.get("model")
    model = model if isinstance(model, str) else before.model
    discrete = agent.get("discrete", config.get("discrete"))
    if not isinstance(discrete, bool):
        discrete = _DISCRETE.get(model.lower(), before.discrete) if model is not None else before.discrete
    state_size = _size(config.get("state_size", config.get("obs_size")))
    if state_size is None:
        state_size = _box_size(config.get("observation_space", config.get("obs_space")))
        if state_size is None and "config" not in agent:
            state_size = before.state_size
    action_size = _size(config.get("action_size"))
    if action_size is None:
        action_size = before.action_size
    return Known(model, state_size, action_size, discrete, config, True)


def hparams(config: Mapping[str, Any]) -> dict[str, int | float | str]:
    """Hyperparameters as numbers and texts: True is 1, anything else its text."""
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
    """Of axonrl's JSON form of a Box; None for other spaces, whose observations the service checks."""
    if not isinstance(space, Mapping) or space.get("type") != "Box":
        return None
    shape = _size(space.get("shape"))
    return shape[0] if isinstance(shape, tuple) and len(shape) == 1 else shape
