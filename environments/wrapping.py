"""Wrappers by name: Gymnasium's own around each copy of an environment, normalisation around all of them together."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box

from ..checks import count, did_you_mean, integer, number
from ..contracts import Array
from .batched import AnyEnv
from .normalization import NormalizeObservation, NormalizeReward, Normalizers

Given: TypeAlias = "str | Mapping[str, Any]"
"""A wrapper as it is asked for: its name, or ``{"kind": name, argument: value, ...}``."""


class WrapperError(ValueError):
    """A wrapper cannot be had as it is asked for.

    Args:
        message: why.
        index: its place in the list of wrappers.
        key: the argument that is wrong (or ``"kind"``), where it is one.
    """

    def __init__(self, message: str, index: int, key: str | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.key = key


def normalize_observation(env: AnyEnv, num_envs: int, *, clip: float = 10.0) -> NormalizeObservation:
    """Observations of mean 0 and variance 1, by running statistics of all copies; within ``-clip .. clip``."""
    return NormalizeObservation(env.observation_space, clip)


def normalize_reward(env: AnyEnv, num_envs: int, *, discount: float = 0.99, clip: float = 10.0) -> NormalizeReward:
    """Rewards scaled by the running deviation of their discounted sum, in training; within ``-clip .. clip``."""
    return NormalizeReward(num_envs, discount, clip)


class TimeLimit(wrappers.TimeLimit[Any, Any]):
    """Gymnasium's, but made again from its spec in the place where it was: there, it counts what it counted here."""

    spec = gymnasium.Wrapper.spec


def time_limit(env: AnyEnv, *, max_episode_steps: int) -> AnyEnv:
    """Episodes are truncated after ``max_episode_steps``, where the environment has no lower limit already."""
    limit = count("max_episode_steps", max_episode_steps)
    if env.spec is not None and env.spec.max_episode_steps is not None and env.spec.max_episode_steps < limit:
        name, lower = env.spec.id, env.spec.max_episode_steps
        raise ValueError(
            f"max_episode_steps must be at most {lower}, the limit that {name} has already, got {limit}; the"
            " environment's own argument max_episode_steps (in kwargs, in a file) raises that one"
        )
    return TimeLimit(env, limit)


def frame_stack(env: AnyEnv, *, stack_size: int) -> AnyEnv:
    """The last ``stack_size`` observations, the oldest first, along a new first axis; at first repeated."""
    if not isinstance(env.observation_space, Box):
        raise ValueError(f"frame_stack needs a Box, got {env.observation_space}")
    return wrappers.FrameStackObservation(env, count("stack_size", stack_size))


def atari(
    env: AnyEnv,
    *,
    noop_max: int = 30,
    frame_skip: int = 4,
    screen_size: int = 84,
    terminal_on_life_loss: bool = False,
    grayscale_obs: bool = True,
    grayscale_newaxis: bool = False,
) -> AnyEnv:
    """Gymnasium's AtariPreprocessing: the protocol of Machado et al. (2018). Frames stay uint8: networks scale them.

    The game must not skip frames itself: make it with ``frameskip=1``.
    """
    if not hasattr(env.unwrapped, "ale"):
        raise ValueError(f"atari needs a game of the Arcade Learning Environment (ALE/...), got {env.unwrapped}")
    if frame_skip != 1 and getattr(env.unwrapped, "_frameskip", None) != 1:
        raise ValueError(
            "atari skips frames, and the game does so itself: make it with frameskip=1 (in kwargs, in a file)"
        )
    try:
        return wrappers.AtariPreprocessing(
            env,
            noop_max=integer("noop_max", noop_max, at_least=0),
            frame_skip=count("frame_skip", frame_skip),
            screen_size=count("screen_size", screen_size),
            terminal_on_life_loss=terminal_on_life_loss,
            grayscale_obs=grayscale_obs,
            grayscale_newaxis=grayscale_newaxis,
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise ValueError("atari needs OpenCV, which is not installed: pip install 'axonrl[atari]'") from error


class RescaleAction(wrappers.RescaleAction[Any, Any, Any]):
    """Gymnasium's, whose rounding takes actions at the bounds beyond those of the environment."""

    def action(self, action: Any) -> Array:
        """The action within the environment's own bounds."""
        space: Any = self.env.action_space
        clipped: Array = np.clip(super().action(action), space.low, space.high)
        return clipped


def rescale_action(env: AnyEnv, *, min_action: float = -1.0, max_action: float = 1.0) -> AnyEnv:
    """Actions in ``min_action .. max_action``, which the environment gets in its own bounds."""
    space = env.action_space
    if not isinstance(space, Box) or space.dtype.kind != "f" or not space.is_bounded():
        raise ValueError(f"rescale_action needs a bounded Box of floats as action space, got {space}")
    if not (space.low < space.high).all():
        raise ValueError(f"rescale_action needs low below high in all of the action space, got {space}")
    low, high = np.float32(number("min_action", min_action)), np.float32(number("max_action", max_action))
    if low >= high:
        raise ValueError(f"max_action must be above min_action, got {high} and {low}")
    return RescaleAction(env, low, high)


def channels_first(env: AnyEnv) -> AnyEnv:
    """Images [height, width, channels] as [channels, height, width]."""
    return _move_channels(env, "channels_first", -1, 0)


def channels_last(env: AnyEnv) -> AnyEnv:
    """Images [channels, height, width], stacked frames say, as [height, width, channels]."""
    return _move_channels(env, "channels_last", 0, -1)


def _move_channels(env: AnyEnv, name: str, source: int, destination: int) -> AnyEnv:
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 3:
        raise ValueError(f"{name} needs images, a Box of three axes, got {space}")
    move = functools.partial(np.moveaxis, source=source, destination=destination)
    moved: Box[Any] = Box(move(space.low), move(space.high), dtype=space.dtype.type)
    return wrappers.TransformObservation(env, move, moved)


_AROUND_EACH: Final[Mapping[str, Callable[..., AnyEnv]]] = {
    function.__name__: function
    for function in (time_limit, frame_stack, atari, rescale_action, channels_first, channels_last)
}
_AROUND_ALL: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function for function in (normalize_observation, normalize_reward)
}
_UNSEEN: Final = ("time_limit", "rescale_action")
"""They change neither observations nor rewards: it makes no difference whether normalisation is around or inside."""
NAMES: Final = (*_AROUND_ALL, *_AROUND_EACH)


class Wrapping:
    """A list of wrappers by name, checked and ready to be put around environments, the first one innermost.

    Args:
        given: the wrappers.

    Raises:
        WrapperError: a name is unknown, an argument is unknown or missing, or the order has no meaning.
    """

    def __init__(self, given: Sequence[Given]) -> None:
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            raise ValueError(f"wrappers must be a list of names and mappings with a kind, got {given!r}")
        self._each: list[tuple[int, str, dict[str, Any]]] = []
        self._all: dict[str, tuple[int, dict[str, Any]]] = {}
        for index, one in enumerate(given):
            name, arguments = _parsed(one, index)
            if name in self._all:
                raise WrapperError(f"{name} is there already, and goes around once", index)
            if name in _AROUND_ALL:
                self._all[name] = (index, arguments)
                continue
            if self._all and name not in _UNSEEN:
                others = " and ".join(self._all)
                raise WrapperError(f"{name} must come before {others}: normalisation goes around it", index)
            self._each.append((index, name, arguments))

    def wrap(self, env: AnyEnv) -> AnyEnv:
        """One copy, with everything around it but the normalisation; ``WrapperError`` where something does not fit."""
        for index, name, arguments in self._each:
            env = _attempt(_AROUND_EACH[name], (env,), arguments, index)
        return env

    def normalizers(self, env: AnyEnv, num_envs: int) -> Normalizers:
        """The normalisation of ``num_envs`` copies like ``env``; ``WrapperError`` where it does not fit."""
        made = {
            name: _attempt(_AROUND_ALL[name], (env, num_envs), arguments, index)
            for name, (index, arguments) in self._all.items()
        }
        return Normalizers(made.get("normalize_observation"), made.get("normalize_reward"))


def _parsed(one: Any, index: int) -> tuple[str, dict[str, Any]]:
    arguments = {"kind": one} if isinstance(one, str) else dict(one) if isinstance(one, Mapping) else {}
    name = arguments.pop("kind", None)
    if name is None:
        raise WrapperError(f"a wrapper must be a name or a mapping with a kind, got {one!r}", index)
    if name not in NAMES:
        known = did_you_mean(name, NAMES) or f"; there are {', '.join(NAMES)}"
        raise WrapperError(f"unknown wrapper {name!r}{known}", index, "kind")
    function = _AROUND_EACH.get(name) or _AROUND_ALL[name]
    parameters = inspect.signature(function).parameters.values()
    takes = {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    for argument in arguments:
        if argument not in takes:
            known = did_you_mean(argument, takes) or (f"; it takes {', '.join(takes)}" if takes else "")
            raise WrapperError(f"{name} takes no argument {argument!r}{known}", index, argument)
    for argument, parameter in takes.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise WrapperError(f"{name} needs the argument {argument!r}", index)
    return name, arguments


def _attempt(function: Callable[..., Any], given: tuple[Any, ...], arguments: Mapping[str, Any], index: int) -> Any:
    """Call it; an error about an argument's value becomes one that names the argument."""
    try:
        return function(*given, **arguments)
    except (TypeError, ValueError) as error:
        subject = str(error).partition(" must ")[0]
        named = [name for name in arguments if re.search(rf"\b{re.escape(name)}\b", subject)]
        message = str(error) if function.__name__ in str(error) else f"{function.__name__}: {error}"
        raise WrapperError(message, index, named[0] if len(named) == 1 else None) from error
