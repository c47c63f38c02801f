"""Wrappers by name: Gymnasium's around each copy of an environment, normalisation around all of them together."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ..core.checks import count, did_you_mean, integer, number, plain, shortened
from ..core.errors import ArgumentError
from ..core.protocols import ACTION_MASK, Array
from .batched import AnyEnv
from .normalizers import NormalizeObservation, NormalizeReward, Normalizers
from .spaces import AnySpace

Given: TypeAlias = "str | Mapping[str, Any]"
"""A wrapper in a list: its name, or ``{"kind": name, argument: value, ...}``."""


class WrapperError(ArgumentError):
    """A wrapper is invalid or does not fit; ``argument`` is ``"wrappers[<index>].<key>"``.

    Args:
        message: the reason.
        index: index in the list of wrappers.
        key: the invalid argument or ``"kind"``, if one is to blame.
        value: what was given.
    """

    def __init__(self, message: str, index: int, key: str | None = None, value: object = None) -> None:
        super().__init__(message, f"wrappers[{index}]" + (f".{key}" if key else ""), value)
        self.args = (message, index, key, value)  # for pickling
        self.index = index
        self.key = key


def normalize_observation(space: AnySpace, num_envs: int, *, clip: float = 10.0) -> NormalizeObservation:
    """Scale observations to mean 0 and variance 1 by running statistics of all copies; clip to ``-clip .. clip``."""
    return NormalizeObservation(space, clip)


def normalize_reward(space: AnySpace, num_envs: int, *, discount: float = 0.99, clip: float = 10.0) -> NormalizeReward:
    """Scale rewards by the running deviation of their discounted sum; clip to ``-clip .. clip``. Training only."""
    return NormalizeReward(num_envs, discount, clip)


class TimeLimit(wrappers.TimeLimit[Any, Any]):
    """Gymnasium's wrapper, but recreated from a spec in its place among the wrappers, to count the same steps."""

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
    """Stack the last ``stack_size`` observations along a new first axis, oldest first; repeated after a reset."""
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
        return self._masked(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action; the observation includes the mask."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._masked(observation, info), reward, terminated, truncated, info

    def _masked(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
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
    """Select the entries ``indices`` of a vector, in that order; the others are hidden."""
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise _unsuitable("observation_space", "must be a vector, a Box with one axis", space)
    given = list(indices) if isinstance(indices, list | tuple) else []
    chosen = [integer("indices", index, at_least=0) for index in given]
    if not chosen or len(set(chosen)) < len(chosen) or max(chosen) >= space.shape[0]:
        message = f"indices must be a list of different integers in 0 .. {space.shape[0] - 1}, got {indices!r}"
        raise ArgumentError(message, "indices", indices)
    selected: Box[Any] = Box(space.low[chosen], space.high[chosen], dtype=space.dtype.type)
    return wrappers.TransformObservation(env, operator.itemgetter(chosen), selected)


def _move_channels(env: AnyEnv, source: int, destination: int) -> AnyEnv:
    space = env.observation_space
    if not isinstance(space, Box) or len(space.shape) != 3:
        raise _unsuitable("observation_space", "must be images, a Box with three axes", space)
    move = functools.partial(np.moveaxis, source=source, destination=destination)
    moved: Box[Any] = Box(move(space.low), move(space.high), dtype=space.dtype.type)
    return wrappers.TransformObservation(env, move, moved)


def _unsuitable(kind: str, problem: str, space: gymnasium.Space[Any]) -> ArgumentError:
    return ArgumentError(f"the {kind.replace('_', ' ')} {problem}, got {space}", kind, space)


_AROUND_EACH: Final[Mapping[str, Callable[..., AnyEnv]]] = {
    function.__name__: function
    for function in (
        *(time_limit, frame_stack, atari, rescale_action, channels_first, channels_last, mask_from_info),
        select_observation,
    )
}
_AROUND_ALL: Final[Mapping[str, Callable[..., Any]]] = {
    function.__name__: function for function in (normalize_observation, normalize_reward)
}
_UNSEEN: Final = ("time_limit", "rescale_action")
"""Wrappers that change neither observations nor rewards: they may also be listed after normalisation."""
NAMES: Final = (*_AROUND_ALL, *_AROUND_EACH)
_ELSEWHERE: Final = {
    "AtariPreprocessing": "atari",
    "AtariWrapper": "atari",
    "FrameStackObservation": "frame_stack",
    "VecFrameStack": "frame_stack",
    "VecNormalize": "normalize_observation",
    "VecTransposeImage": "channels_first",
    "ActionMasker": "mask_from_info",
}
"""Classes of Gymnasium and Stable-Baselines3 whose names are nearer to another wrapper than to the right one."""


class Wrapping:
    """A checked list of wrappers, the innermost first.

    Raises:
        WrapperError: a name is unknown, an argument is unknown or missing, or the order is invalid.
    """

    def __init__(self, given: Sequence[Given]) -> None:
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence):
            message = f"wrappers must be a list of names and mappings with a kind, got {given!r}"
            raise ArgumentError(message, "wrappers", given)
        self.given: list[dict[str, Any]] = []
        """The wrappers, each ``{"kind": name, argument: value, ...}``."""
        self._each: list[tuple[int, str, dict[str, Any]]] = []
        self._all: dict[str, tuple[int, dict[str, Any]]] = {}
        for index, one in enumerate(given):
            name, arguments = _parsed(one, index)
            self.given.append({"kind": name, **arguments})
            if name in self._all:
                raise WrapperError(f"duplicate {name}", index, value=one)
            if name in _AROUND_ALL:
                self._all[name] = (index, arguments)
                continue
            if self._all and name not in _UNSEEN:
                others = " and ".join(self._all)
                raise WrapperError(f"{name} must come before {others}: normalisation is outermost", index, value=one)
            self._each.append((index, name, arguments))

    def wrap(self, env: AnyEnv) -> AnyEnv:
        """Wrap one copy in all wrappers but the normalisation; ``WrapperError`` if one does not fit."""
        for index, name, arguments in self._each:
            env = _attempt(_AROUND_EACH[name], (env,), arguments, index)
        return env

    def refuse_around_each(self, what: str, but: Sequence[str] = ()) -> list[str]:
        """Refuse wrappers around copies that cannot have any, except wrappers whose work the copies do themselves.

        Args:
            what: the copies, for the message.
            but: names of the wrappers whose work the copies do.

        Returns:
            The names in ``but`` that are in the list.

        Raises:
            WrapperError: the list has another wrapper around each copy, or a duplicate.
        """
        found: list[str] = []
        for index, name, _ in self._each:
            if name in but and name not in found:
                found.append(name)
                continue
            advice = "pass max_episode_steps to the environment (kwargs in a file)" if name == "time_limit" else ""
            advice = advice or "use vectorization 'sync'"
            raise WrapperError(f"{name} cannot be put around {what}; {advice}", index, "kind", name)
        return found

    def normalizers(self, space: AnySpace, num_envs: int) -> Normalizers:
        """Normalisation of ``num_envs`` copies with these observations; ``WrapperError`` if unsuitable."""
        made = {
            name: _attempt(_AROUND_ALL[name], (space, num_envs), arguments, index)
            for name, (index, arguments) in self._all.items()
        }
        return Normalizers(made.get("normalize_observation"), made.get("normalize_reward"))


def _parsed(one: Any, index: int) -> tuple[str, dict[str, Any]]:
    arguments = {"kind": one} if isinstance(one, str) else plain(dict(one)) if isinstance(one, Mapping) else {}
    name = arguments.pop("kind", None)
    if name is None:
        raise WrapperError(f"a wrapper must be a name or a mapping with a kind, got {one!r}", index, value=one)
    if name not in NAMES:
        known = did_you_mean(_ELSEWHERE.get(str(name), name), NAMES) or f"; there are {', '.join(NAMES)}"
        raise WrapperError(f"unknown wrapper {name!r}{known}", index, "kind", name)
    function = _AROUND_EACH.get(name) or _AROUND_ALL[name]
    parameters = inspect.signature(function).parameters.values()
    takes = {parameter.name: parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    for argument in arguments:
        if argument not in takes:
            known = did_you_mean(argument, takes) or (f"; it takes {', '.join(takes)}" if takes else "")
            raise WrapperError(f"{name} takes no argument {argument!r}{known}", index, argument, arguments[argument])
    for argument, parameter in takes.items():
        if parameter.default is parameter.empty and argument not in arguments:
            raise WrapperError(f"{name} needs the argument {argument!r}", index)
    return name, arguments


def _attempt(function: Callable[..., Any], given: tuple[Any, ...], arguments: Mapping[str, Any], index: int) -> Any:
    """Call a wrapper's function; its errors become WrapperErrors, with the key of the argument to blame."""
    try:
        return function(*given, **arguments)
    except (TypeError, ValueError) as error:
        argument, value = (error.argument, error.value) if isinstance(error, ArgumentError) else (None, None)
        key = argument if argument in arguments else None
        raise WrapperError(f"{function.__name__}: {error}", index, key, value) from error
