"""Selection of the batched interface to an environment, and its arguments."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium import Space
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers.vector import NormalizeObservation

from ..core.errors import ArgumentError
from . import minatar
from .batched import AnyEnv, AnyVectorEnv, BatchedEnvironment
from .copies import Copies, Single
from .native import NativeVectorEnv
from .normalization import BY_NAME, NormalizedEnvironment, Wrapped, WrappedVector, are_copies, wrappers_of
from .pooled import NOT_EXACT, PooledVectorEnv
from .statistics import refuse_hidden
from .vectors import NativeVector, NextStepVector, PooledVector, SameStepVector, Vector
from .worlds import Worlds, WorldsVectorEnv

logger = logging.getLogger("axonrl")


def open_batched(env: Any) -> BatchedEnvironment:
    """Open the batched interface to an environment object; errors as for :func:`.ids.open_environment`."""
    if isinstance(env, Wrapped):
        return _open_copies(env, [env])
    if isinstance(env, gymnasium.Env):
        _warn_if_rewards_are_hidden(env)
        return Single(env, **details_of(env, env))
    if isinstance(env, VectorEnv):
        return _open_vector(env)
    raise ArgumentError(f"env must be a gymnasium.Env, a gymnasium.vector.VectorEnv or an id, got {env!r}", "env", env)


def innermost(env: Any) -> set[int]:
    """``id()`` of each environment inside all wrappers; empty for ids and None."""
    if env is None or isinstance(env, str):
        return set()
    inside = getattr(env, "unwrapped", env)
    if isinstance(inside, WorldsVectorEnv):
        return {id(world.env) for world in inside.worlds}
    return {id(one.unwrapped) for one in inside.envs} if isinstance(inside, SyncVectorEnv) else {id(inside)}


def _open_copies(env: AnyEnv | AnyVectorEnv, copies: Sequence[Wrapped]) -> BatchedEnvironment:
    """Open copies made with wrappers by name; normalisation, if any, covers all of them at once."""
    inside, normalizers = [one.env for one in copies], copies[0].normalizers
    details = details_of(inside[0], inside[0])
    inner = Single(inside[0], **details) if env is copies[0] else Copies(env, inside, **details)
    if not any(normalizers):
        return inner
    return NormalizedEnvironment(env, inner, normalizers, learns=copies[0].row is not None)


def _warn_if_rewards_are_hidden(env: AnyEnv | AnyVectorEnv) -> None:
    """Warn if a wrapper around normalize_reward hides the environment's own rewards."""
    around = list(wrappers_of(env))
    for wrapper in around:
        if isinstance(wrapper, BY_NAME) and wrapper.row is not None and wrapper.normalizers.reward is not None:
            outer = type(env if around[0] is wrapper else around[0]).__name__
            logger.warning("%s wraps normalize_reward: all returns will be sums of normalised rewards", outer)
            return


def _open_vector(env: AnyVectorEnv) -> BatchedEnvironment:
    if isinstance(env, WrappedVector):
        return NormalizedEnvironment(env, _open_vector(env.env), env.normalizers, learns=True)
    if isinstance(env, NativeVectorEnv | PooledVectorEnv | WorldsVectorEnv):
        return _open_own(env)
    inside = env.unwrapped
    if isinstance(inside, SyncVectorEnv) and len(innermost(inside)) < len(inside.envs):
        message = (
            "the vector environment holds the same environment object several times, which would mix their episodes:"
            " each function passed to SyncVectorEnv([...]) must make a new one"
        )
        raise ArgumentError(message, "env", env)
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)  # Gymnasium's default
    if type(env) is SyncVectorEnv:  # in any mode: its environments are stepped here, and none resets itself
        if are_copies(env.envs):
            return _open_copies(env, env.envs)
        _warn_if_rewards_are_hidden(env)
        return Copies(env, env.envs, **details_of(env, env.envs[0]))
    if isinstance(env.unwrapped, AsyncVectorEnv):
        refuse_hidden(env.unwrapped)
    kinds: dict[object, type[BatchedEnvironment]] = {
        AutoresetMode.DISABLED: Vector,
        AutoresetMode.SAME_STEP: SameStepVector,
        AutoresetMode.NEXT_STEP: NextStepVector,
    }
    _warn_if_rewards_are_hidden(env)
    details = details_of(env, env.envs[0] if isinstance(env, SyncVectorEnv) else None)
    if mode not in kinds:
        message = f"{details['name']}: metadata['autoreset_mode'] must be an AutoresetMode, got {mode!r}"
        raise ArgumentError(message, "env", env)
    if type(env) is AsyncVectorEnv and mode is AutoresetMode.NEXT_STEP:
        mode = AutoresetMode.DISABLED  # its processes drop a pending reset once they are reset by mask
    if mode is not AutoresetMode.DISABLED:
        advice = f"{_exact_alternative(env)} would be exact"
        details["not_exact"] = f"it resets itself (autoreset_mode {mode.name}); {advice}"
    return kinds[mode](env, num_envs=env.num_envs, **details)


def _exact_alternative(env: AnyVectorEnv) -> str:
    normalizes = any(isinstance(one, NormalizeObservation) for one in wrappers_of(env))  # it takes NEXT_STEP only
    if env.spec is None and not normalizes:
        return "autoreset_mode DISABLED"
    env_id = "..." if env.spec is None else repr(env.spec.id)
    wrappers = ", wrappers=['normalize_observation']" if normalizes else ""
    return f"axonrl.environments.make({env_id}, num_envs={env.num_envs}{wrappers})"


def _open_own(env: NativeVectorEnv | PooledVectorEnv | WorldsVectorEnv) -> BatchedEnvironment:
    details = {**details_of(env, None), "num_envs": env.num_envs}
    if isinstance(env, NativeVectorEnv):
        return NativeVector(env, **details)
    if isinstance(env, WorldsVectorEnv):
        return Worlds(env, **{**details, "name": env.name})
    return PooledVector(env, **{**details, "name": env.pool.env_id, "not_exact": NOT_EXACT})


def details_of(env: AnyEnv | AnyVectorEnv, one: AnyEnv | None) -> dict[str, Any]:
    """The arguments of a BatchedEnvironment, from ``env`` and, if available, ``one`` of its environments."""
    spec = env.spec or (one.spec if one is not None else None)
    details: dict[str, Any] = {"name": spec.id if spec is not None else type((one or env).unwrapped).__name__}
    for kind in ("observation_space", "action_space"):
        space = getattr(env, f"single_{kind}" if isinstance(env, VectorEnv) else kind, None)
        if not isinstance(space, Space):
            message = f"{details['name']} has no {kind}: it must be a gymnasium.Space, got {space!r}"
            raise ArgumentError(message, kind, space)
        details[kind] = space
    if spec is not None and spec.nondeterministic:
        details["not_exact"] = "it is registered as nondeterministic"
    elif one is not None and minatar.is_bare(one):
        details["not_exact"] = "MinAtar keeps its last action when it is reset (axonrl's environments.make clears it)"
    return details
