"""Wrappers by name: Gymnasium's around each copy of an environment, normalisation around all copies."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ..core.checks import count, integer, number, shortened
from ..core.errors import ArgumentError
from ..core.protocols import ACTION_MASK, Array
from .batched import AnyEnv
from .normalizers import NormalizeObservation, NormalizeReward
from .spaces import AnySpace


def normalize_observation(space: AnySpace, num_envs: int, *, clip: float = 10.0) -> NormalizeObservation:
    """Scale observations to mean 0 and variance 1 by running statistics of all copies; clip to ``-clip .. clip``."""
    return NormalizeObservation(space, clip)


def normalize_reward(space: AnySpace, num_envs: int, *, discount: float = 0.99, clip: float = 10.0) -> NormalizeReward:
    """Scale rewards by the running deviation of their discounted sum; clip to ``-clip .. clip``. Training only."""
    return NormalizeReward(num_envs, discount, clip)


class TimeLimit(wrappers.TimeLimit[Any, Any]):
    """Gymnasium's wrapper, recreated from a spec at its place among the wrappers, so that it counts the same steps."""

    spec = gymnasium.Wrapper.spec


def time_limit(env: AnyEnv, *, max_episode_steps: int) -> AnyEnv:
    """Truncate episodes after ``max_episode_steps``, at most the environment's own limit."""
    limit = count("max_episode_steps", max_episode_steps)
    if env.spec is not None and env.spec.max_episode_steps is not None and env.spec.max_episode_steps < limit:
        name, lower = env.spec.id, env.spec.max_episode_steps
        message = (
            f"max_episode_steps must be at most {lower}, the limit of {name}, got {limit}; to raise that limit, pass"
            " max_episode_steps to the environment (kwargs in a file)"
        )
        raise ArgumentError(message, "max_episode_steps", limit)
    return TimeLimit(env, limit)


def frame_stack(env: AnyEnv, *, stack_size: int) -> AnyEnv:
    """Stack the last ``stack_size`` observations along a new first axis, oldest first; a reset repeats the first."""
    if not isinstance(env.observation_space, Box):
        raise _unsuitable("observation_space", "must be a Box", env.observation_space)
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

    The game must be made with ``frameskip=1``.
    """
    if not hasattr(env.unwrapped, "ale"):
        message = f"the environment must be a game of the Arcade Learning Environment (ALE/...), got {env.unwrapped}"
        raise ArgumentError(message, "env", env)
    if frame_skip != 1 and getattr(env.unwrapped, "_frameskip", None) != 1:
        message = "both the game and this wrapper would skip frames; make the game with frameskip=1 (kwargs in a file)"
        raise ArgumentError(message, "frame_skip", frame_skip)
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
        raise ArgumentError("OpenCV is not installed: pip install 'axonrl[atari]'", "kind", "atari") from error


class RescaleAction(wrappers.RescaleAction[Any, Any, Any]):
    """Gymnasium's wrapper, with clipping: rounding may take actions beyond the environment's bounds."""

    def action(self, action: Any) -> Array:
        """The action within the environment's bounds."""
        space: Any = self.env.action_space
        clipped: Array = np.clip(super().action(action), space.low, space.high)
        return clipped


def rescale_action(env: AnyEnv, *, min_action: float = -1.0, max_action: float = 1.0) -> AnyEnv:
    """Scale actions in ``min_action .. max_action`` to the environment's bounds."""
    space = env.action_space
    if not isinstance(space, Box) or space.dtype.kind != "f" or not space.is_bounded():
        raise _unsuitable("action_space", "must be a bounded Box of floats", space)
    if not (space.low < space.high).all():
        raise _unsuitable("action_space", "must have low below high in every component", space)
    low, high = np.float32(number("min_action", min_action)), np.float32(number("max_action", max_action))
    if low >= high:
        raise ArgumentError(f"max_action must be above min_action, got {high} and {low}", "max_action", max_action)
    return RescaleAction(env, low, high)


def channels_first(env: AnyEnv) -> AnyEnv:
    """Transpose images [height, width, channels] to [channels, height, width]."""
    return _move_channels(env, -1, 0)


def channels_last(env: AnyEnv) -> AnyEnv:
    """Transpose images [channels, height, width], such as stacked frames, to [height, width, channels]."""
    return _move_channels(env, 0, -1)


class MaskFromInfo(gymnasium.Wrapper[Any, Any, Any, Any], gymnasium.utils.RecordConstructorArgs):
    """The mask of legal actions, which the environment reports in ``info``, as part of the observation.

    Observations are ``{"observation": ..., "action_mask": ...}``; the mask is bool, with an entry for each action of a
    Discrete space, or for each choice of a MultiDiscrete one, concatenated.
    """

    def __init__(self, env: AnyEnv, name: str) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self, name=name)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(name, str):
            raise ArgumentError(f"name must be a key of info, got {name!r}", "name", name)
        match env.action_space:
            case Discrete(n=n):
                size = int(n)
            case MultiDiscrete(nvec=nvec):
                size = int(nvec.sum())
            case _:
                raise _unsuitable("action_space", "must be Discrete or MultiDiscrete", env.action_space)
        mask: Box[Any] = Box(0, 1, (size,), np.bool_)
        self.observation_space = Dict({"observation": env.observation_space, ACTION_MASK: mask})
        self._name, self._size = name, size
        self._where = f"info[{name!r}] of {type(env.unwrapped).__name__ if env.spec is None else env.spec.id}"

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; the observation includes the mask."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._add_mask(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action; the observation includes the mask."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._add_mask(observation, info), reward, terminated, truncated, info

    def _add_mask(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        if self._name not in info:
            raise ValueError(f"{self._where} is missing, there is only {', '.join(map(repr, info)) or 'nothing'}")
        given = info[self._name]
        try:
            array = np.asarray(given)
        except ValueError:  # rows of different lengths
            array = np.array(None)
        if array.shape != (self._size,) or array.dtype.kind not in "biu" or (array != array.astype(np.bool_)).any():
            message = f"{self._where} must be {self._size} bits, one per action, bool or int, got {shortened(given)}"
            raise ValueError(message)
        return {"observation": observation, ACTION_MASK: array.astype(np.bool_)}


def mask_from_info(env: AnyEnv, *, name: str = ACTION_MASK) -> AnyEnv:
    """The mask of legal actions from ``info[name]``: observations are ``{"observation": ..., "action_mask": ...}``."""
    return MaskFromInfo(env, name)


def select_observation(env: AnyEnv, *, indices: Sequence[int]) -> AnyEnv:
    """Select the entries ``indices`` of a vector, in that order; the other entries are hidden."""
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise _unsuitable("observation_space", "must be a vector, a Box with one axis", space)
    given = list(indices) if isinstance(indices, list | tuple) else []
    chosen = [integer("indices", index, at_least=0) for index in given]
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= space.shape[0]:
        message = f"indices must be a list of different integers in 0 .. {space.shape[0] - 1}, got {indices!r}"
        raise ArgumentError(message, "indices", indices)
    selected: Box[Any] = Box(space.low[chosen], space.high[chosen], dtype=space.dtype.type)
    return wrappers.TransformObservation(env, functools.partial(np.take, indices=chosen, axis=0), selected)


def _move_channels(env: AnyEnv, source: int, destination: int) -> AnyEnv:
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 3:
        raise _unsuitable("observation_space", "must be images, a Box with three axes", space)
    move = functools.partial(np.moveaxis, source=source, destination=destination)
    moved: Box[Any] = Box(move(space.low), move(space.high), dtype=space.dtype.type)
    return wrappers.TransformObservation(env, move, moved)


def _unsuitable(kind: str, problem: str, space: gymnasium.Space[Any]) -> ArgumentError:
    return ArgumentError(f"the {kind.replace('_', ' ')} {problem}, got {space}", kind, space)
