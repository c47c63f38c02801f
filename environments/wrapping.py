"""Wrappers by name: Gymnasium's own around each copy of an environment, and normalisation around all copies together.

Normalisation is written here, because its statistics are those of all copies, as in Stable-Baselines3's VecNormalize:
Gymnasium's wrappers of single environments keep one set for each, and those of vector environments take neither
``AutoresetMode.DISABLED`` nor a reset mask.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, TypeGuard

import gymnasium
import numpy as np
from gymnasium import wrappers
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs

from ..checks import count, did_you_mean, number
from ..contracts import Array, ArrayTree
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment, Step
from .observations import copied

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


# -- normalisation ----------------------------------------------------------------------------------------------------

_EPSILON: Final = 1e-8
"""Added to variances, as VecNormalize and Gymnasium do."""


class Moments:
    """Mean and variance (of the population) of all rows so far; 0 and 1 as long as there are none.

    Args:
        shape: of a row.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean: Any = np.zeros(shape)
        self.var: Any = np.ones(shape)
        self.count = 0

    def update(self, rows: Array) -> None:
        """Take account of more ``rows`` [n, ...], n >= 1; by Chan, Golub and LeVeque (1983), equation 1.5."""
        n, total = len(rows), self.count + len(rows)
        mean = np.add.reduce(rows, dtype=np.float64) / n
        deviation, delta = rows - mean, mean - self.mean
        squares = np.add.reduce(deviation * deviation) + delta * delta * (self.count * n / total)
        self.mean = self.mean + delta * (n / total)
        self.var = (self.var * self.count + squares) / total
        self.count = total


class NormalizeObservation:
    """Observations minus their running mean, over their running standard deviation, clipped; float32.

    It has the attributes of Gymnasium's wrapper of this name, so that checkpoints and exports treat both alike.

    Args:
        space: one environment's observation space.
        clip: the largest absolute value that comes out.

    Raises:
        ValueError: the space is not a Box of floats, or ``clip`` is not above 0.
    """

    def __init__(self, space: gymnasium.Space[Any], clip: float) -> None:
        if not isinstance(space, Box) or space.dtype.kind != "f":
            raise ValueError(f"normalize_observation needs a Box of floats, got {space}")
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.obs_rms = Moments(space.shape)
        self.update_running_mean = True
        self.space = Box(-self.clip, self.clip, space.shape, np.float32)

    def learn(self, rows: Array) -> None:
        """Take account of observations [n, ...]; not while an evaluation or a replay has it frozen."""
        if self.update_running_mean and len(rows):
            self.obs_rms.update(rows)

    def __call__(self, batch: Any) -> Array:
        """The normalised observations [N, ...]."""
        moments = self.obs_rms
        scaled = (batch - moments.mean) / np.sqrt(moments.var + self.epsilon)
        clipped: Array = np.minimum(np.maximum(scaled, -self.clip), self.clip).astype(np.float32)
        return clipped


class NormalizeReward:
    """Rewards over the running standard deviation of the discounted sum of rewards so far, clipped.

    That sum goes forwards (it is no return-to-go) and begins anew with every episode, as in VecNormalize. Whatever is
    frozen, as an evaluation is, gets the environment's own rewards; and so do hooks and returns, always.

    Args:
        num_envs: N.
        discount: of the sum.
        clip: the largest absolute value that comes out.

    Raises:
        ValueError: ``discount`` is not in 0 .. 1, or ``clip`` not above 0.
    """

    def __init__(self, num_envs: int, discount: float, clip: float) -> None:
        self.discount = number("discount", discount, at_least=0, at_most=1)
        self.clip = number("clip", clip, above=0)
        self.epsilon = _EPSILON
        self.return_rms = Moments(())
        self.accumulated_reward = np.zeros(num_envs)
        self.update_running_mean = True

    def begin(self, rows: Any) -> None:
        """Episodes begin in these ``rows``: an index of environments, of any kind."""
        if self.update_running_mean:
            self.accumulated_reward[rows] = 0.0

    def __call__(self, rewards: Any, rows: Any = slice(None)) -> Any:
        """The normalised ``rewards`` [n] of these ``rows``."""
        if not self.update_running_mean:
            return rewards
        self.accumulated_reward[rows] = self.accumulated_reward[rows] * self.discount + rewards
        self.return_rms.update(self.accumulated_reward[rows])
        scaled = rewards / np.sqrt(self.return_rms.var + self.epsilon)
        return np.minimum(np.maximum(scaled, -self.clip), self.clip)


class Normalizers(NamedTuple):
    """What all copies of an environment have in common; None for what is not normalised."""

    observation: NormalizeObservation | None = None
    reward: NormalizeReward | None = None

    def __deepcopy__(self, memo: Any) -> Normalizers:
        """Itself: specs of environments are copied time and again, and what is made from them shares the statistics."""
        return self


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """The outermost wrapper of one environment that was made with wrappers by name.

    The batched interface looks through it, and normalises all copies at once (:class:`NormalizedEnvironment`). Its
    ``spec`` makes one that watches.

    Args:
        env: one copy, with the other wrappers around it.
        normalizers: shared by all copies.
        row: which copy it is; None for one that only watches: it is normalised like the others, but nothing is learnt
            from it, and its rewards are its own.
    """

    def __init__(self, env: AnyEnv, normalizers: Normalizers, row: int | None) -> None:
        RecordConstructorArgs.__init__(self, normalizers=normalizers, row=None)
        gymnasium.Wrapper.__init__(self, env)
        self.normalizers = normalizers
        self.row = row
        if normalizers.observation is not None:
            self.observation_space = normalizers.observation.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        if self.normalizers.reward is not None and self.row is not None:
            self.normalizers.reward.begin(self.row)
        return self._seen(observation), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take one action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self.normalizers.reward is not None and self.row is not None:
            reward = self.normalizers.reward(np.array([reward], np.float64), [self.row]).item()
        return self._seen(observation), reward, terminated, truncated, info

    def _seen(self, observation: Any) -> Any:
        normalize = self.normalizers.observation
        if normalize is None:
            return observation
        batch = np.asarray(observation, np.float32)[None]  # as the batched interface has it
        if self.row is not None:
            normalize.learn(batch)
        return normalize(batch)[0]


def are_copies(envs: Sequence[AnyEnv]) -> TypeGuard[Sequence[Wrapped]]:
    """Were these made together, so that they share their normalisation, and all learn, or all watch?"""
    first = envs[0]
    return isinstance(first, Wrapped) and all(
        isinstance(env, Wrapped) and env.normalizers is first.normalizers and (env.row is None) == (first.row is None)
        for env in envs
    )


class NormalizedEnvironment(BatchedEnvironment):
    """Normalises all copies at once.

    Every observation counts once in the statistics: that of a reset in the rows that were reset, that of a step in
    all of them, the last one of an episode included. Rows that are not reset keep what they were.

    Args:
        env: what was opened.
        inner: its copies without normalisation.
        normalizers: what they share.
        learns: do the statistics follow? Otherwise rewards are left as they are.
    """

    def __init__(
        self, env: AnyEnv | AnyVectorEnv, inner: BatchedEnvironment, normalizers: Normalizers, *, learns: bool
    ) -> None:
        observation = normalizers.observation
        super().__init__(
            env,
            name=inner.name,
            num_envs=inner.num_envs,
            observation_space=inner.observation_space if observation is None else observation.space,
            action_space=inner.action_space,
            not_exact=inner.not_exact,
        )
        self._inner = inner
        self._normalizers = normalizers
        self._learns = learns

    def _reset(self, chosen: Array, seeds: list[int], *, everything: bool) -> ArrayTree:
        batch: Any = self._inner.reset(None if everything else chosen, seeds)
        observation, reward = self._normalizers
        if reward is not None and self._learns:
            reward.begin(chosen)
        if observation is None:
            return copied(batch)
        if self._learns:
            observation.learn(batch[chosen])
        return observation(batch)

    def step(self, actions: Array) -> Step:
        """One action in each of the copies."""
        self._current()
        step = self._inner.step(actions)
        observation, reward = self._normalizers
        batch: Any = step.observation
        if observation is not None:
            if self._learns:
                observation.learn(batch)
            batch = observation(batch)
        self._last = batch
        normalized = None if reward is None or not self._learns else reward(step.reward)
        return step._replace(observation=batch, normalized_reward=normalized)


# -- by name ----------------------------------------------------------------------------------------------------------


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
            noop_max=noop_max,
            frame_skip=frame_skip,
            screen_size=screen_size,
            terminal_on_life_loss=terminal_on_life_loss,
            grayscale_obs=grayscale_obs,
            grayscale_newaxis=grayscale_newaxis,
        )
    except gymnasium.error.DependencyNotInstalled as error:
        raise ValueError("atari needs OpenCV, which is not installed: pip install 'axonrl[atari]'") from error


def rescale_action(env: AnyEnv, *, min_action: float = -1.0, max_action: float = 1.0) -> AnyEnv:
    """Actions in ``min_action .. max_action``, which the environment gets in its own bounds."""
    space = env.action_space
    if not isinstance(space, Box) or space.dtype.kind != "f" or not space.is_bounded():
        raise ValueError(f"rescale_action needs a bounded Box of floats as action space, got {space}")
    low, high = number("min_action", min_action), number("max_action", max_action)
    if low >= high:
        raise ValueError(f"max_action must be above min_action, got {high} and {low}")
    return wrappers.RescaleAction(env, np.float32(low), np.float32(high))


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
