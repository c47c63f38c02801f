"""Environments with several agents, with PettingZoo's interface."""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, Final

import gymnasium
from gymnasium.spaces import Dict
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from ..core.checks import count, is_json, plain
from ..core.errors import ArgumentError
from ..core.protocols import MOST_LANES
from .normalization import WrappedVector
from .worlds import WorldsVectorEnv, has_agents
from .wrapping import Given, Wrapping

_ADVICE: Final = " (pip install 'axonrl[pettingzoo]')"


def from_pettingzoo(
    parallel_env: Any,
    num_envs: int = 1,
    *,
    max_episode_steps: int | None = None,
    wrappers: Sequence[Given] = (),
    **kwargs: Any,
) -> WorldsVectorEnv | WrappedVector:
    """Make a vector environment from PettingZoo's parallel environments, whose agents share one policy.

    Example::

        env = from_pettingzoo("sisl/pursuit-v5", num_envs=4, max_cycles=200)
        agent.train(env, max_timesteps=1_000_000)  # which counts agents' actions

    Each agent of each world is a lane. A lane whose agent has died or has not appeared yet has no transitions: it
    contributes to no loss, statistic or counter. All lanes of a world are reset together.

    Args:
        parallel_env: a function that makes a ``pettingzoo.ParallelEnv``, its name ``"package.module:function"``, or an
            id of PettingZoo's registry; or an environment, for one world that cannot be copied for evaluations.
        num_envs: number of worlds.
        max_episode_steps: timesteps after which all agents of a world are truncated; None for the world's own limit.
        wrappers: ``normalize_observation`` and ``normalize_reward``, as for :func:`make`; others go around the
            ParallelEnv.
        **kwargs: arguments of ``parallel_env``.

    Raises:
        ArgumentError: it does not make a ParallelEnv, or the agents have different spaces.
    """
    num_envs = count("num_envs", num_envs, at_most=MOST_LANES)
    if has_agents(parallel_env):
        if num_envs > 1 or kwargs:
            message = "several worlds, or arguments, need a function that makes an environment, not an environment"
            raise ArgumentError(f"{message}, got {parallel_env}", "parallel_env", parallel_env)
        return _wrap(WorldsVectorEnv([lambda: parallel_env], max_episode_steps), wrappers)
    name, function = _function_of(parallel_env)
    make = functools.partial(_make_world, function, name, kwargs)
    given = kwargs if max_episode_steps is None else {"max_episode_steps": max_episode_steps, **kwargs}
    return _wrap(WorldsVectorEnv([make] * num_envs, max_episode_steps, _world_record(name, given)), wrappers)


def _world_record(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Record of worlds in a run: arguments of :func:`from_pettingzoo`, or ``unrecorded`` ones."""
    given: dict[str, Any] = plain(dict(kwargs))
    hidden = {key: None for key, value in given.items() if not is_json(value)}
    if "<" in name:
        hidden["parallel_env"] = None
    kept = {key: value for key, value in given.items() if key not in hidden}
    return {"id": name, "kwargs": kept, **({"unrecorded": hidden} if hidden else {})}


def worlds_in(env: Any) -> WorldsVectorEnv | None:
    """The worlds of a vector environment that :func:`from_pettingzoo` made; None for others."""
    inside = env.env if isinstance(env, WrappedVector) else env
    return inside if isinstance(inside, WorldsVectorEnv) else None


def worlds_like(env: Any, number: int, **kwargs: Any) -> WorldsVectorEnv | WrappedVector:
    """Make this many new worlds like those of ``env``, with separate statistics if it normalises.

    Args:
        env: made by :func:`from_pettingzoo`.
        number: number of worlds.
        **kwargs: further arguments of the parallel environment.

    Raises:
        ArgumentError: ``env`` was made from an environment instead of a function.
    """
    inside = worlds_in(env)
    if inside is None or inside.given is None:
        message = (
            f"another {env} cannot be made: pass from_pettingzoo a function that makes a ParallelEnv, or its name"
            " 'package.module:parallel_env', instead of an environment"
        )
        raise ArgumentError(message, "env", env)
    functions = [functools.partial(inside.functions[0], **kwargs)] * number
    return _wrap(
        WorldsVectorEnv(functions, inside.limit, inside.given), env.given if isinstance(env, WrappedVector) else ()
    )


class JointEnv(gymnasium.Env[Any, Any]):
    """A world as one environment, for checks: observations and actions of all agents, and the sum of their rewards.

    An absent agent keeps its last observation.

    Args:
        env: made by :func:`from_pettingzoo`, with one world.
    """

    def __init__(self, env: WorldsVectorEnv) -> None:
        self.vector, self.metadata = env, {"render_modes": []}
        self._names = [str(agent) for agent in env.worlds[0].agents]
        self.observation_space = Dict(dict.fromkeys(self._names, env.single_observation_space))
        self.action_space = Dict({name: copy.deepcopy(env.single_action_space) for name in self._names})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        return self._by_agent(self.vector.reset(seed=seed)[0]), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Let all present agents act."""
        space, each = self.vector.single_action_space, [action[name] for name in self._names]
        made: Any = create_empty_array(space, len(each))
        observations, rewards, terminated, _, _ = self.vector.step(concatenate(space, each, made))
        over = not self.vector.present.any()
        terminal = bool(over and terminated.any())
        return self._by_agent(observations), float(rewards.sum()), terminal, over and not terminal, {}

    def close(self) -> None:
        """Close the world."""
        self.vector.close()

    def _by_agent(self, observations: Any) -> dict[str, Any]:
        return dict(zip(self._names, iterate(self.vector.observation_space, observations), strict=True))


def joint(env: Any) -> Callable[[], JointEnv] | None:
    """A function that makes the joint environment of a parallel environment, its name, or worlds; None for others."""
    if (worlds := worlds_in(env)) is not None:
        return lambda: JointEnv(WorldsVectorEnv(worlds.functions[:1], worlds.limit))
    if isinstance(env, str):
        try:
            made = _function_of(env)[1]
        except ArgumentError:
            return None  # an id, perhaps a misspelt one
        if isinstance(made, type) and issubclass(made, gymnasium.Env):
            return None
    elif not has_agents(env):
        return None
    return lambda: JointEnv(WorldsVectorEnv([lambda: env if has_agents(env) else made()]))


def _wrap(env: WorldsVectorEnv, wrappers: Sequence[Given]) -> WorldsVectorEnv | WrappedVector:
    if not wrappers:
        return env
    wrapping = Wrapping(wrappers)
    otherwise = "wrap the ParallelEnv in the function that makes it, with SuperSuit's wrappers or your own"
    wrapping.refuse_around_each(f"the agents of {env.name}", otherwise=otherwise)
    return WrappedVector(env, wrapping.normalizers(env.single_observation_space, env.num_envs), wrapping.given)


def _function_of(parallel_env: Any) -> tuple[str, Callable[..., Any]]:
    """The name ``module:function`` and the function."""
    if isinstance(parallel_env, str):
        module, colon, path = parallel_env.partition(":")
        if parallel_env in (known := _registered_ids()):
            return parallel_env, functools.partial(importlib.import_module("pettingzoo").make, "parallel", parallel_env)
        if not colon:
            message = (
                "parallel_env must be 'package.module:function', or an id of PettingZoo's registry"
                f"{'' if known else _ADVICE}, got {parallel_env!r}"
            )
            raise ArgumentError(message, "parallel_env", parallel_env)
        try:
            function = functools.reduce(getattr, path.split("."), importlib.import_module(module))
        except (ImportError, AttributeError) as error:
            package = module.partition(".")[0]
            advice = _ADVICE if package in ("pettingzoo", "mpe2") else ""
            message = f"cannot import {parallel_env!r}: {error}{advice}"
            raise ArgumentError(message, "parallel_env", parallel_env) from error
        return parallel_env, _callable(function, parallel_env)
    name = getattr(parallel_env, "__qualname__", f"<{type(parallel_env).__name__}>")
    return f"{getattr(parallel_env, '__module__', '')}:{name}", _callable(parallel_env, parallel_env)


def _registered_ids() -> Container[str]:
    """Ids of parallel environments that PettingZoo can make."""
    try:
        found: Container[str] = importlib.import_module("pettingzoo").parallel_registry
    except (ImportError, AttributeError):  # versions before 1.27 have none
        return ()
    return found


def _callable(function: Any, given: Any) -> Callable[..., Any]:
    if not callable(function):
        message = (
            f"parallel_env must be a ParallelEnv, a function that makes one, or the function's name, got {given!r}"
        )
        raise ArgumentError(message, "parallel_env", given)
    found: Callable[..., Any] = function
    return found


def _make_world(function: Callable[..., Any], name: str, given: Mapping[str, Any], **more: Any) -> Any:
    kwargs = {**given, **more}
    try:
        return function(**kwargs)
    except Exception as error:
        told = f" with {kwargs}" if kwargs else ""
        message = f"{name} could not be made{told}: {type(error).__name__}: {error}"
        raise ArgumentError(message, "kwargs" if kwargs else "parallel_env", kwargs or name) from error
