"""Ids of the native environments, and functions that check and make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import gymnasium

from ...core.checks import did_you_mean
from ...core.errors import ArgumentError
from .acrobot import Acrobot
from .cartpole import CartPole
from .mountain_car import MountainCar, MountainCarContinuous
from .pendulum import Pendulum
from .vector import NativeVectorEnv

_KINDS: Final[Mapping[str, type[NativeVectorEnv]]] = {
    "CartPole-v0": CartPole,
    "CartPole-v1": CartPole,
    "MountainCar-v0": MountainCar,
    "MountainCarContinuous-v0": MountainCarContinuous,
    "Acrobot-v1": Acrobot,
    "Pendulum-v1": Pendulum,
}
IDS: Final = tuple(_KINDS)
"""The ids that ``vectorization: native`` takes."""
_MODULE: Final = "gymnasium.envs.classic_control"
_LIMIT: Final = "max_episode_steps"
_ELSE: Final = "use vectorization 'sync'"


def check_native(env_id: str, kwargs: Mapping[str, Any]) -> None:
    """Raise ``ArgumentError`` for an id or an argument that no native environment supports."""
    kind, spec = _KINDS.get(env_id), gymnasium.registry.get(env_id)
    if kind is None:
        near = did_you_mean(env_id, IDS) or f"; those that have one are {', '.join(IDS)}"
        raise ArgumentError(f"{env_id} has no native implementation{near}; for other ids {_ELSE}", "env_id", env_id)
    if spec is None or not str(spec.entry_point).startswith(_MODULE):
        found = None if spec is None else spec.entry_point
        raise ArgumentError(f"{env_id} is not Gymnasium's own here, but {found}; {_ELSE}", "env_id", env_id)
    takes = (*kind.arguments, _LIMIT)
    for name, value in kwargs.items():
        if name not in takes:
            raise ArgumentError(
                f"{env_id} with vectorization 'native' takes no argument {name!r}, only {', '.join(takes)}; {_ELSE}",
                "kwargs",
                dict(kwargs),
            )
        if name != _LIMIT and not isinstance(value, int | float):
            raise ArgumentError(f"{name} of {env_id} must be a number, got {value!r}", "kwargs", dict(kwargs))


def make_native(one: gymnasium.Env[Any, Any], num_envs: int) -> NativeVectorEnv:
    """Make ``num_envs`` native copies of ``one``, an environment with one of :data:`IDS` and checked arguments."""
    spec: Any = one.spec
    return _KINDS[spec.id](one, num_envs)
